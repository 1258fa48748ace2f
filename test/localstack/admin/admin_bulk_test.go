package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A hierarchy of hundreds of entities is stored on the emulators as on the twin: in bulk, parents
// first. Changes of others since the plan stay.
func TestAHierarchyIsAppliedInBulk(t *testing.T) {
	const n = 200
	onEngines(t, func(w *world) {
		m := admin.Manifest{Namespace: "prod", Entities: []admin.Entity{{ID: "org"}}}
		for i := range n {
			id := fmt.Sprintf("t-%04d", i)
			m.Entities = append(m.Entities, admin.Entity{ID: id, Parent: "org", Cascade: true})
			m.Scopes = append(m.Scopes, admin.Config{Scope: admin.Scope{Entity: id, Resource: "api"},
				Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}})
		}
		p, err := w.ns.Plan(t.Context(), m)
		check.Must(w, err)
		check.Must(w, check.Err(w.ns.CreateEntity(t.Context(), admin.Entity{ID: "t-0007", Name: "theirs"})))
		begin := time.Now()
		check.MustBe(t, w.ns.Apply(t.Context(), p), admin.ErrBusy, "error")
		t.Logf("%d steps in %v", p.Changes(), time.Since(begin))
		if e, err := w.ns.Entity(t.Context(), "t-0007"); err != nil || e.Name != "theirs" {
			t.Errorf("overwritten: %+v, %v", e, err)
		}
		if e, err := w.ns.Entity(t.Context(), "t-0199"); err != nil || e.Parent != "org" || !e.Cascade {
			t.Errorf("%+v, %v", e, err)
		}
		p, err = w.ns.Plan(t.Context(), m)
		check.Must(w, err)
		check.Equal(t, p.Changes(), 1, "changes left")
	})
}
