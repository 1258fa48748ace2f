package admin

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Listings work over pages, with indexes of keys and of whole items.
func TestBucketsOfScopes(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := newWorld(t)
		w.db.ProjectAll = all
		w.set(Scope{}, limiter.PerMinute("rpm", 80))
		w.create(Entity{ID: "e0"})
		for i := range 5 {
			id := fmt.Sprint("e", i)
			if i > 0 {
				w.create(Entity{ID: id, Parent: "e0"})
			}
			w.take(id, "gpt-4", limiter.Costs{"rpm": int64(i)})
			w.take(id, "other", limiter.Costs{"rpm": 1})
		}
		w.split("e4", "gpt-4", 2)
		for at, want := range map[Scope]int{{}: 10, {Resource: "gpt-4"}: 5, {Entity: "e1"}: 2, {"e4", "gpt-4"}: 1,
			{Entity: "x"}: 0, {"x", "y"}: 0} {
			check.Equal(t, len(collect(t, w.ns.Buckets(t.Context(), at))), want, "%s", at)
		}
	}
}
