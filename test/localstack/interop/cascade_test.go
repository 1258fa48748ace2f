//go:build interop

package interop

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// What an entity takes is charged to its parent too, whichever client takes it
// and whichever has created the two: levels of both are the same to the
// millitoken after acquires, settlements and rollbacks of both clients, and a
// denial by either entity leaves the other as it was.
func TestCascadeIsShared(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l := w.open(func(o *limiter.Options) { o.DenyFor = -1 })
		p, n, ctx := w.python(), w.manage(), w.Context()
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100), still("tpm", 1000))})
		p.call(nil, "create_entity", kv{"entity_id": "org-py"})
		p.call(nil, "create_entity", kv{"entity_id": "key-py", "parent_id": "org-py", "cascade": true})
		_, err := n.CreateEntity(ctx, admin.Entity{ID: "org-go"})
		w.must(err)
		_, err = n.CreateEntity(ctx, admin.Entity{ID: "key-go", Parent: "org-go", Cascade: true})
		w.must(err)
		for child, parent := range map[string]string{"key-py": "org-py", "key-go": "org-go"} {
			rpm, tpm := int64(100_000), int64(1_000_000)
			check := func(step string) {
				w.Helper()
				for _, entity := range []string{child, parent} {
					w.wantLevels(step+", "+entity, entity, "api", levels{"rpm": rpm, "tpm": tpm})
				}
			}
			for range 3 {
				p.take(child, "api", limiter.Costs{"rpm": 1, "tpm": 10})
				rpm, tpm = rpm-1000, tpm-10_000
				check("Python takes")
				w.take(l, child, "api", limiter.Costs{"rpm": 1, "tpm": 10})
				rpm, tpm = rpm-1000, tpm-10_000
				check("Go takes")
				theirs := p.acquire(child, "api", limiter.Costs{"rpm": 1, "tpm": 10})
				ours := w.acquire(l, limiter.Request{Entity: child, Resource: "api", Costs: limiter.Costs{"rpm": 1, "tpm": 10}})
				theirs.adjust(limiter.Costs{"tpm": 7})
				theirs.commit()
				w.must(ours.Settle(limiter.Costs{"tpm": 7}))
				w.must(ours.Commit(ctx))
				rpm, tpm = rpm-2000, tpm-24_000
				check("both settle")
				theirs = p.acquire(child, "api", limiter.Costs{"rpm": 1, "tpm": 10})
				ours = w.acquire(l, limiter.Request{Entity: child, Resource: "api", Costs: limiter.Costs{"rpm": 1, "tpm": 10}})
				theirs.rollback()
				w.must(ours.Rollback(ctx))
				check("both roll back")
			}
			// The parent runs dry by itself: both clients are denied, and the child
			// is left as it is.
			before := levelsOf(w.bucket(child, "api"))
			w.take(l, parent, "api", limiter.Costs{"rpm": rpm / 1000, "tpm": 0})
			_, err := l.Acquire(ctx, limiter.Request{Entity: child, Resource: "api", Costs: limiter.Costs{"rpm": 1}})
			if !errors.Is(err, limiter.ErrLimited) {
				w.Errorf("%s: acquire with a dry parent: %v, want a denial", child, err)
			}
			w.wantLevels("denied by the parent", child, "api", before)
		}
	})
}

// Python goes on to the parent and no further, ours to four levels in all. Where the
// parent does not exist ours refuses, and Python charges it all the same.
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
