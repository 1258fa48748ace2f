package admin

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
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

// What of an entity cannot be read goes with the rest.
func TestDeletingAnEntityThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		w := newWorld(t)
		w.create(Entity{ID: "acme"})
		for _, resource := range []string{"a", "b", "c"} {
			w.set(Scope{"acme", resource}, rpm10)
		}
		odd := w.db.Item(table.EntityConfigKey(w.ns.ID(), "acme", "b"))
		odd["l_rpm_ra"] = item.N(0)
		w.db.Store(odd)
		_, err := w.ns.DeleteEntity(t.Context(), "acme")
		w.must(err)
		for _, it := range w.db.Items() {
			if k := item.KeyOf(it); strings.Contains(k.PK, "ENTITY#acme") && k != table.DeletionKey(w.ns.ID(), "acme") {
				t.Errorf("left: %v", k)
			}
		}
	})
}

// What an entity has left is removed, and that is recorded, also where nobody has described it; of
// an entity that there never was, nothing is.
func TestDeletingAnEntityThatIsNotDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 1}, rpm10)
		for entity, want := range map[string]int{"acme": 1, "nobody": 0} {
			n, err := w.ns.DeleteEntity(t.Context(), entity)
			if w.must(err); n != want || len(w.events(Scope{Entity: entity})) != want {
				t.Errorf("%s: %d removed, %v", entity, n, w.events(Scope{Entity: entity}))
			}
		}
	})
}
