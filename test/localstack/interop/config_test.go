//go:build interop

package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// set stores limits for an entity, a resource, both or neither.
func (w *world) set(entity, resource string, limits ...limiter.Limit) {
	w.Helper()
	check.Must(w, w.manage().SetLimits(w.Context(), admin.Scope{Entity: entity, Resource: resource}, limits...))
}

// One client writes each level, and the other uses it. The more specific level wins for both.
func TestConfigurationOfEveryLevelIsRead(t *testing.T) {
	levels := []struct {
		name             string
		entity, resource string
		python           func(p *python, limits []pyLimit)
	}{
		{"system", "", "", func(p *python, limits []pyLimit) { p.call(nil, "set_system_defaults", kv{"limits": limits}) }},
		{"resource", "", "api", func(p *python, limits []pyLimit) {
			p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": limits})
		}},
		{"entity default", "acme", "", func(p *python, limits []pyLimit) {
			p.call(nil, "set_limits", kv{"entity_id": "acme", "limits": limits})
		}},
		{"entity", "acme", "api", func(p *python, limits []pyLimit) {
			p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api", "limits": limits})
		}},
	}
	fresh := func(o *limiter.Options) { o.ConfigTTL = -1 }
	onBothEngines(t, func(w *world) {
		l, p := w.open(fresh), w.python()
		for i, level := range levels {
			// Each level differs, so that the test sees which one is in force.
			limits := []limiter.Limit{
				{Name: "rpm", Capacity: int64(100 + i), Refill: int64(10 + i), Period: time.Hour},
				{Name: "x_y", Capacity: 5, Refill: 5, Period: 24 * time.Hour},
			}
			level.python(p, pyLimits(limits...))
			w.inForce(level.name+" by Python, read by Go", l, limits[0])

			limits[0].Capacity += 50
			w.set(level.entity, level.resource, limits...)
			other := w.python() // without cached configuration
			w.inForcePython(level.name+" by Go, read by Python", other, limits[0])
		}
		var got []pyLimit
		p.call(&got, "get_limits", kv{"entity_id": "acme", "resource": "api"})
		want := pyLimit{"rpm", 153, 13, 3600}
		if len(got) != 2 || !slices.Contains(got, want) {
			w.Errorf("Python gets %+v for the entity, want %+v", got, want)
		}
	})
}

// inForce checks a limit by a new bucket of the entity, after removing the previous bucket.
func (w *world) inForce(step string, l *limiter.Limiter, want limiter.Limit) {
	w.Helper()
	w.write(item.Delete{Key: layout.BucketKey(w.ns, "acme", "api", 0)})
	w.take(l, "acme", "api", limiter.Costs{"rpm": 1})
	w.wantLimit(step, want)
}

func (w *world) inForcePython(step string, p *python, want limiter.Limit) {
	w.Helper()
	w.write(item.Delete{Key: layout.BucketKey(w.ns, "acme", "api", 0)})
	p.take("acme", "api", limiter.Costs{"rpm": 1})
	w.wantLimit(step, want)
}

func (w *world) wantLimit(step string, want limiter.Limit) {
	w.Helper()
	for _, sl := range w.bucket("acme", "api").State.Slots {
		if sl.Name != want.Name {
			continue
		}
		got := limiter.Limit{Name: sl.Name, Capacity: sl.Capacity / bucket.Milli, Refill: sl.Amount / bucket.Milli,
			Period: time.Duration(sl.Period) * time.Millisecond}
		check.MustEqual(w, got, want, "%s: the bucket", step)
		return
	}
	w.Fatalf("%s: the bucket has no limit %s", step, want.Name)
}

// Our client uses the policy that Python stores. Python reads ours.
func TestStoredPolicyIsShared(t *testing.T) {
	onBothEngines(t, func(w *world) {
		p, l := w.python(), w.open()
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(limiter.PerMinute("rpm", 10)), "on_unavailable": "allow"})
		n := w.manage()
		c, err := n.Config(w.Context(), admin.Scope{})
		if err != nil || c.OnUnavailable != limiter.PolicyAllow || len(c.Limits) != 1 {
			w.Errorf("what Python has stored is %+v to us (%v), want one limit and allow", c, err)
		}
		w.take(l, "acme", "api", limiter.Costs{"rpm": 1})
		check.Must(w, n.Configure(w.Context(), admin.Settings{OnUnavailable: new(limiter.PolicyBlock)}))
		var got []any
		w.python().call(&got, "get_system_defaults", kv{})
		if len(got) != 2 || got[1] != "block" {
			w.Errorf("Python gets %v, want the limits and block", got)
		}
	})
}

// Either client adds, raises and removes limits of a bucket in use. The bucket keeps serving both.
func TestLimitsChangeUnderUse(t *testing.T) {
	fresh := func(o *limiter.Options) { o.ConfigTTL = -1 }
	onBothEngines(t, func(w *world) {
		l, p := w.open(fresh), w.python()
		set := func(limits ...limiter.Limit) {
			w.Helper()
			p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api", "limits": pyLimits(limits...)})
		}
		one := limiter.Costs{"rpm": 1}
		set(still("rpm", 10))
		p.take("acme", "api", one)
		w.take(l, "acme", "api", one)
		w.wantLevels("two taken", "acme", "api", levels{"rpm": 8000})

		set(still("rpm", 100)) // raised by Python: consumed tokens stay consumed
		w.take(l, "acme", "api", one)
		p.take("acme", "api", one)
		w.wantLevels("raised by Python", "acme", "api", levels{"rpm": 6000})

		// Added by Python: its own bucket would be refused forever (W2). Our first acquire repairs
		// it.
		set(still("rpm", 100), still("tpm", 1000))
		w.take(l, "acme", "api", limiter.Costs{"rpm": 1, "tpm": 10})
		w.python().take("acme", "api", limiter.Costs{"rpm": 1, "tpm": 10})
		check.Equal(w, levelsOf(w.bucket("acme", "api"))["tpm"], 980_000,
			"tpm, added by Python and taken from by both, is, want 980000")

		// Removed by us: Python goes on with the others.
		w.set("acme", "api", still("tpm", 1000))
		w.take(l, "acme", "api", limiter.Costs{"tpm": 10})
		w.python().take("acme", "api", limiter.Costs{"tpm": 10})
		w.wantLevels("removed by us", "acme", "api", levels{"tpm": 960_000})

		// Raised and added by us: in force at once, even for a Python client that has the old
		// limits in its cache.
		w.set("acme", "api", still("tpm", 2000), still("rpd", 50))
		w.wantLevels("raised and added by us", "acme", "api", levels{"tpm": 960_000, "rpd": 50_000})
		p.take("acme", "api", limiter.Costs{"tpm": 900, "rpd": 1})
		w.wantLevels("taken by Python", "acme", "api", levels{"tpm": 60_000, "rpd": 49_000})

		// Removed by Python: ours no longer requires it.
		set(still("rpd", 50))
		w.take(l, "acme", "api", limiter.Costs{"rpd": 1})
		check.Equal(w, levelsOf(w.bucket("acme", "api"))["rpd"], 48_000,
			"rpd is after tpm was removed by Python, want 48000")
	})
}

// allowed makes the version record name Python's functions, as after a deployment that our client
// joins. Python stores some settings only if they are there.
func (w *world) allowed() {
	w.Helper()
	record := w.item(layout.VersionKey())
	record["lambda_version"] = item.S(newer)
	w.write(item.Put{Item: record})
}

// Both clients obey soft limits that either stored, on buckets of either, until our client stores a
// hard one. When our client changes the limits, Python's other settings stay.
func TestSoftLimitsOfEither(t *testing.T) {
	withNewer(t, func(w *world) {
		l, p, two := w.open(), w.python(), limiter.Costs{"rpm": 2}
		w.allowed()
		inTurn := func(resource string, n int, left int64) {
			w.Helper()
			for _, first := range []string{"python", "go"} { // creates the bucket
				for i := range n {
					if (i%2 == 0) == (first == "python") {
						p.take(first, resource, two)
					} else {
						w.take(l, first, resource, two)
					}
				}
				w.wantLevels(resource+", by "+first, first, resource, levels{"rpm": left})
			}
		}
		p.call(nil, "set_resource_defaults", kv{"resource": "theirs", "limits": []kv{
			{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 365 * 86_400, "soft": true}}})
		inTurn("theirs", 6, -9_000)
		lease := w.acquire(l, limiter.Request{Entity: "go", Resource: "theirs", Costs: limiter.Costs{"rpm": 1}})
		if over := lease.Overdrawn(); len(over) != 1 || over[0].Remaining != -10 {
			w.Errorf("overdrawn %v", over)
		}
		p.repository(nil, "set_resource_cascade", kv{"resource": "theirs", "cascade": true})
		p.repository(nil, "bypass_resource", kv{"resource": "theirs"})
		w.set("", "theirs", still("rpm", 5))
		it := w.item(layout.ResourceConfigKey(w.ns, "theirs"))
		if !item.Equal(it["disabled"], item.S("bypass")) || !item.Equal(it["cascade"], item.Bool(true)) {
			w.Errorf("after a change of the limits: disabled %v, cascade %v", it["disabled"], it["cascade"])
		}

		w.set("", "ours", still("rpm", 3).AsSoft())
		l, p = w.open(), w.python()
		inTurn("ours", 4, -5_000)
		w.set("", "ours", still("rpm", 3))
		w.denied(w.open(), "go", "ours", limiter.Costs{"rpm": 1})
		if wait := p.denied("go", "ours", limiter.Costs{"rpm": 1}); wait < time.Hour {
			w.Errorf("Python is denied for %v", wait)
		}
	})
}
