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

// access makes our client disable or bypass a scope, or end that.
func (w *world) access(at admin.Scope, a admin.Access) {
	w.Helper()
	check.Must(w, check.Err(w.manage().SetAccess(w.Context(), at, a)))
}

// shows checks the access that our client reads.
func (w *world) shows(at admin.Scope, want admin.Access) {
	w.Helper()
	if c, err := w.manage().Config(w.Context(), at); err != nil || c.Access != want {
		w.Errorf("ours shows %s of %s, %v, want %s", c.Access, at, err, want)
	}
}

// When our client disables or enables a scope, Python obeys at once, on buckets of either client.
// When Python disables one, our client obeys, and can enable it; and the other way round.
func TestDisabledByEither(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 100))})
		one, makers := limiter.Costs{"rpm": 1}, []string{"python", "go"}
		p.take("python", "api", one)
		p.take("python", "api", one) // by its fast path
		w.take(l, "go", "api", one)
		served := func(what string, want ...string) {
			w.Helper()
			for i, entity := range makers {
				_, err := p.tryAcquire(entity, "api", one, nil)
				if off := err != nil && err.Type == "ResourceDisabled"; err != nil && !off || off != (want[i] == "off") {
					w.Errorf("%s: Python takes from the bucket of %s: %v, want it %s", what, entity, err, want[i])
				}
				_, ours := w.open().Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "api", Costs: one})
				if off := errors.Is(ours, limiter.ErrDisabled); ours != nil && !off || off != (want[i] == "off") {
					w.Errorf("%s: ours takes from the bucket of %s: %v, want it %s", what, entity, ours, want[i])
				}
			}
		}
		api, python := admin.Scope{Resource: "api"}, admin.Scope{Entity: "python", Resource: "api"}
		w.access(api, admin.AccessDisabled)
		served("disabled by ours", "off", "off")
		w.access(python, admin.AccessEnabled)
		served("one enabled by ours", "on", "off")
		p.repository(nil, "enable_resource", kv{"resource": "api"})
		served("enabled by Python", "on", "on")
		p.repository(nil, "disable_entity", kv{"entity_id": "python", "resource": "api"})
		served("one disabled by Python", "off", "on")
		w.shows(python, admin.AccessDisabled)
		w.access(python, admin.AccessInherited)
		p.repository(nil, "disable_resource", kv{"resource": "api"})
		served("disabled by Python", "off", "off")
		w.access(api, admin.AccessInherited)
		served("as before", "on", "on")
	})
}

// When our client bypasses limits, Python grants at once although nothing is left, on buckets of
// either client. When Python bypasses limits, ours grants, until the other client ends it.
func TestBypassedByEither(t *testing.T) {
	withNewer(t, func(w *world) {
		l := w.open()
		// Otherwise it would deny without a look while it remembers a denial.
		p, raised := tryPython(w, driverFor(w, w.engine, w.release, 0), w.table, namespace, kv{"rejection_cache_ttl": 0})
		if raised != nil {
			w.Fatal(raised)
		}
		one, makers := limiter.Costs{"rpm": 1}, []string{"python", "go"}
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 2))})
		for range 2 {
			p.take("python", "api", one)
			w.take(l, "go", "api", one)
		}
		granted := func(what string, want ...bool) {
			w.Helper()
			for i, entity := range makers {
				before := levelsOf(w.bucket(entity, "api"))
				lease, err := w.open().Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "api", Costs: one})
				if want[i] && (err != nil || !errors.Is(lease.Cause(), limiter.ErrBypassed)) ||
					!want[i] && !errors.Is(err, limiter.ErrLimited) {
					w.Errorf("%s: ours takes from the bucket of %s: %v, want it granted: %v", what, entity, err, want[i])
				}
				w.wantLevels(what, entity, "api", before)
				if theirs, err := p.tryAcquire(entity, "api", one, nil); err == nil {
					theirs.rollback()
					if !want[i] {
						w.Errorf("%s: Python takes from the bucket of %s", what, entity)
					}
				} else if want[i] || !err.denied() {
					w.Errorf("%s: Python takes from the bucket of %s: %v, want it granted: %v", what, entity, err, want[i])
				}
			}
		}
		api, python := admin.Scope{Resource: "api"}, admin.Scope{Entity: "python", Resource: "api"}
		granted("limits decide", false, false)
		w.access(api, admin.AccessBypassed)
		granted("bypassed by ours", true, true)
		w.access(python, admin.AccessEnabled)
		granted("one enabled by ours", false, true)
		p.repository(nil, "enable_resource", kv{"resource": "api"})
		w.shows(api, admin.AccessEnabled)
		granted("enabled by Python", false, false)
		p.repository(nil, "bypass_entity", kv{"entity_id": "python", "resource": "api"})
		w.shows(python, admin.AccessBypassed)
		granted("one bypassed by Python", true, false)
		w.access(python, admin.AccessInherited)
		granted("ended by ours", false, false)
		p.repository(nil, "bypass_resource", kv{"resource": "api"})
		w.shows(api, admin.AccessBypassed)
		granted("bypassed by Python", true, true)
		w.access(api, admin.AccessInherited)
		granted("as before", false, false)
		w.access(admin.Scope{Entity: "go"}, admin.AccessBypassed)
		granted("one bypassed by ours, everywhere", false, true)
		p.repository(nil, "clear_entity_disabled", kv{"entity_id": "go"})
		granted("ended by Python", false, false)
	})
}

// When our client decides that parents are charged or not, Python obeys at once, on buckets of
// either client, and the other way round, until the other client decides otherwise.
func TestCascadePolicyOfEither(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p := w.open(), w.python()
		n, ctx, one, makers := w.manage(), w.Context(), limiter.Costs{"rpm": 1}, []string{"python", "go"}
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 100))})
		level := map[string]int64{}
		for _, entity := range makers {
			check.Must(w, check.Err(n.CreateEntity(ctx, admin.Entity{ID: "org-" + entity})))
			check.Must(w, check.Err(n.CreateEntity(ctx, admin.Entity{ID: entity, Parent: "org-" + entity})))
			w.take(l, "org-"+entity, "api", one)
			level[entity], level["org-"+entity] = 99_000, 99_000
		}
		p.take("python", "api", one)
		w.take(l, "go", "api", one)
		charges := func(what string, want ...bool) {
			w.Helper()
			for i, entity := range makers {
				p.take(entity, "api", one)
				w.take(w.open(), entity, "api", one)
				level[entity] -= 2_000
				if want[i] {
					level["org-"+entity] -= 2_000
				}
				w.wantLevels(what, entity, "api", levels{"rpm": level[entity]})
				w.wantLevels(what, "org-"+entity, "api", levels{"rpm": level["org-"+entity]})
			}
		}
		api, python := admin.Scope{Resource: "api"}, admin.Scope{Entity: "python", Resource: "api"}
		set := func(at admin.Scope, c admin.Cascade) {
			w.Helper()
			check.Must(w, check.Err(n.SetCascade(ctx, at, c)))
		}
		shows := func(at admin.Scope, want admin.Cascade) {
			w.Helper()
			if c, err := n.Config(ctx, at); err != nil || c.Cascade != want {
				w.Errorf("ours shows %s of %s, %v, want %s", c.Cascade, at, err, want)
			}
		}
		charges("entities decide", false, false)
		set(api, admin.CascadeOn)
		charges("on by ours", true, true)
		set(python, admin.CascadeOff)
		charges("off for one by ours", false, true)
		p.repository(nil, "set_entity_cascade", kv{"entity_id": "python", "resource": "api", "cascade": true})
		shows(python, admin.CascadeOn)
		charges("on for one by Python", true, true)
		p.repository(nil, "set_resource_cascade", kv{"resource": "api", "cascade": false})
		shows(api, admin.CascadeOff)
		charges("off by Python", true, false)
		set(python, admin.CascadeInherited)
		charges("one ended by ours", false, false)
		set(admin.Scope{Entity: "go"}, admin.CascadeOn)
		charges("on for one everywhere by ours", false, true)
		p.repository(nil, "clear_entity_cascade", kv{"entity_id": "go"})
		charges("one ended by Python", false, false)
		p.repository(nil, "set_resource_cascade", kv{"resource": "api", "cascade": true})
		charges("on by Python", true, true)
		set(api, admin.CascadeInherited)
		charges("as before", false, false)
	})
}

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
