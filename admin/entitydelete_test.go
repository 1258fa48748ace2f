package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Deleting an entity tells how many items it has removed: its description, limits and
// buckets, here one of each.
func TestDeletingAnEntityTellsHowMuch(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	w.set(Scope{"acme", "gpt-4"}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	if n, err := w.ns.DeleteEntity(t.Context(), "acme"); n != 3 || err != nil {
		t.Errorf("removed %d, %v, want 3", n, err)
	}
}
