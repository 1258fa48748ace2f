//go:build interop

package interop

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// The clients take turns at acquiring, settling and rolling back. After every step the stored level
// and counter are exact to the millitoken: of an entity, and of a child and its parent, whichever
// client created them. A denial by the parent leaves the child unchanged.
func TestTurnsAreCountedToTheMillitoken(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l := w.open(func(o *limiter.Options) { o.DenyFor = -1 })
		p, n, ctx := w.python(), w.manage(), w.Context()
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 1000), still("tpm", 1_000_000))})
		p.call(nil, "create_entity", kv{"entity_id": "org-py"})
		p.call(nil, "create_entity", kv{"entity_id": "key-py", "parent_id": "org-py", "cascade": true})
		check.Must(w, check.Err(n.CreateEntity(ctx, admin.Entity{ID: "org-go"})))
		check.Must(w, check.Err(n.CreateEntity(ctx, admin.Entity{ID: "key-go", Parent: "org-go", Cascade: true})))
		for _, payers := range [][]string{{"alone"}, {"key-py", "org-py"}, {"key-go", "org-go"}} {
			who, rpm, tpm := payers[0], int64(0), int64(0)
			taken := func(step string, requests, tokens int64) {
				w.Helper()
				rpm, tpm = rpm+requests, tpm+tokens
				for _, entity := range payers {
					w.wantLevels(step+", "+entity, entity, "api",
						levels{"rpm": (1000 - rpm) * bucket.Milli, "tpm": (1_000_000 - tpm) * bucket.Milli})
					for _, sl := range w.bucket(entity, "api").State.Slots {
						want := map[string]int64{"rpm": rpm, "tpm": tpm}[sl.Name] * bucket.Milli
						if sl.Name != bucket.WCU && sl.Used != want {
							w.Fatalf("%s: counter of %s is %d, want %d", step, sl.Name, sl.Used, want)
						}
					}
				}
			}
			for round := range int64(3) {
				costs := limiter.Costs{"rpm": 1, "tpm": 100 + round}
				r := limiter.Request{Entity: who, Resource: "api", Costs: costs}
				p.take(who, "api", costs)
				taken("Python takes", 1, costs["tpm"])
				w.acquire(l, r)
				taken("Go takes", 1, costs["tpm"])
				theirs, ours := p.acquire(who, "api", costs), w.acquire(l, r)
				taken("both hold", 2, 2*costs["tpm"])
				theirs.adjust(limiter.Costs{"tpm": 7})
				theirs.commit()
				taken("Python settles more", 0, 7)
				check.Must(w, ours.Settle(limiter.Costs{"tpm": costs["tpm"] - 30}))
				check.Must(w, ours.Commit(ctx))
				taken("Go settles less", 0, -30)
				theirs, ours = p.acquire(who, "api", costs), w.acquire(l, r)
				theirs.rollback()
				check.Must(w, ours.Rollback(ctx))
				taken("both roll back", 0, 0)
			}
			if len(payers) > 1 {
				before := levelsOf(w.bucket(who, "api"))
				w.take(l, payers[1], "api", limiter.Costs{"rpm": 1000 - rpm})
				w.denied(l, who, "api", limiter.Costs{"rpm": 1})
				w.wantLevels("denied by the parent", who, "api", before)
			}
		}
	})
}

// Python charges the parent but no further; ours charges four levels in all. If the parent does not
// exist, ours refuses, and Python charges it nevertheless.
func TestCascadesThatDiffer(t *testing.T) {
	one := limiter.Costs{"rpm": 1}
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100))})
		p.call(nil, "create_entity", kv{"entity_id": "company"})
		p.call(nil, "create_entity", kv{"entity_id": "team", "parent_id": "company", "cascade": true})
		p.call(nil, "create_entity", kv{"entity_id": "key", "parent_id": "team", "cascade": true})
		p.take("key", "api", one)
		w.wantLevels("Python takes, its key", "key", "api", levels{"rpm": 99_000})
		w.wantLevels("Python takes, its team", "team", "api", levels{"rpm": 99_000})
		if _, ok := w.shard("company", "api", 0); ok {
			w.Error("Python charges the parent of the parent")
		}
		w.take(l, "key", "api", one)
		for entity, left := range map[string]int64{"key": 98_000, "team": 98_000, "company": 99_000} {
			w.wantLevels("Go takes, "+entity, entity, "api", levels{"rpm": left})
		}

		p.call(nil, "create_entity", kv{"entity_id": "gone"})
		p.call(nil, "create_entity", kv{"entity_id": "orphan", "parent_id": "gone", "cascade": true})
		w.write(item.Delete{Key: layout.EntityKey(w.ns, "gone")})
		_, err := l.Acquire(w.Context(), limiter.Request{Entity: "orphan", Resource: "api", Costs: one})
		if err == nil || errors.Is(err, limiter.ErrLimited) {
			w.Errorf("Go acquires without the parent: %v, want it refused", err)
		}
		p.take("orphan", "api", one)
		w.wantLevels("Python takes, without the parent", "gone", "api", levels{"rpm": 99_000})
	})
}
