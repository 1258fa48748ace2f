//go:build interop

package interop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/tablespec"
)

// A running application of Python 0.17.0 keeps all that it can do when ours opens the table: on one that it
// has deployed and on one of ours, however often and in whatever way ours opens it. What it stores then, ours
// obeys.
func TestOpeningLeavesTheNewerPythonWhole(t *testing.T) {
	onBothEngines(t, func(w *world) {
		if w.release == older {
			return // it has none of this
		}
		w.open()
		w.keepsAll("a table of ours")

		w = newWorld(w.T, w.engine, newer, tablespec.ForTest(w.T, w.engine))
		w.python()
		w.allowed()
		w.keepsAll("a table of Python")
	})
}

// keepsAll calls everything of Python that asks the version record, each time after ours has opened the table,
// and takes tokens with both clients.
func (w *world) keepsAll(where string) {
	w.Helper()
	lambda := w.item(layout.VersionKey())["lambda_version"]
	p := w.python()
	l := w.open()
	opens := func() {
		l = w.open()
		w.must(w.manage().Configure(w.Context(), admin.Settings{OnUnavailable: new(limiter.PolicyBlock)}))
	}
	on := func(method string, args kv) {
		w.Helper()
		opens()
		p.repository(nil, method, args)
		opens() // ours reads what is stored now
	}
	set := func(entity string, more kv) {
		w.Helper()
		limit := kv{"name": "rpm", "capacity": 3, "refill_amount": 0, "refill_period_seconds": 1}
		for name, value := range more {
			limit[name] = value
		}
		opens()
		p.call(nil, "set_limits", kv{"entity_id": entity, "resource": "api", "limits": []kv{limit}})
		opens()
	}
	one := limiter.Costs{"rpm": 1}
	takes := func(entity string, n int) { // both in turn, and then there is nothing left
		w.Helper()
		for i := range n {
			if i%2 == 0 {
				p.take(entity, "api", one)
			} else {
				w.take(l, entity, "api", one)
			}
		}
		w.denied(l, entity, "api", one)
		p.denied(entity, "api", one)
	}
	daily := kv{"reset_schedule": []kv{{"cron": "0 0 1 1 *", "tz": "Asia/Tokyo"}}}
	topUp := func(entity string) {
		w.Helper()
		on("top_up", kv{"entity_id": entity, "resource": "api", "amounts": kv{"rpm": 2}})
		p = w.python() // which remembers no denial
		takes(entity, 2)
	}
	set("quota", daily)
	takes("quota", 3)
	topUp("quota")
	set("session", kv{"reset_after": 3600})
	takes("session", 3)
	topUp("session")
	set("soft", kv{"refill_amount": 1, "refill_period_seconds": 365 * 86_400, "soft": true})
	for range 4 {
		p.take("soft", "api", one)
		w.take(l, "soft", "api", one)
	}

	set("free", daily)
	takes("free", 3)
	on("bypass_entity", kv{"entity_id": "free", "resource": "api"})
	lease := w.acquire(l, limiter.Request{Entity: "free", Resource: "api", Costs: one})
	if !errors.Is(lease.Cause(), limiter.ErrBypassed) {
		w.Errorf("%s: cause %v, want a bypass", where, lease.Cause())
	}

	p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100))})
	opens()
	p = w.python()
	for _, entity := range []string{"org", "other"} {
		p.call(nil, "create_entity", kv{"entity_id": entity})
		w.take(l, entity, "api", one)
	}
	p.call(nil, "create_entity", kv{"entity_id": "kid", "parent_id": "org"})
	level := map[string]int64{"org": 99_000, "other": 99_000}
	charges := func(step, parent string) { // to the kid by both
		w.Helper()
		p.take("kid", "api", one)
		w.take(l, "kid", "api", one)
		if parent != "" {
			level[parent] -= 2_000
		}
		for entity, tokens := range level {
			w.wantLevels(where+", "+step, entity, "api", levels{"rpm": tokens})
		}
	}
	charges("no cascade", "")
	on("set_resource_cascade", kv{"resource": "api", "cascade": true})
	charges("a cascade of the resource", "org")
	on("set_parent", kv{"entity_id": "kid", "parent_id": "other"})
	charges("moved", "other")
	on("set_entity_cascade", kv{"entity_id": "kid", "resource": "api", "cascade": false})
	charges("no cascade of the entity", "")
	on("clear_entity_cascade", kv{"entity_id": "kid", "resource": "api"})
	charges("the entity's is cleared", "other")
	on("clear_resource_cascade", kv{"resource": "api"})
	charges("the resource's is cleared", "")

	now := w.item(layout.VersionKey())["lambda_version"]
	if !item.Equal(now, lambda) || !item.Equal(now, item.S(newer)) {
		w.Errorf("%s: lambda_version was %v, is %v", where, lambda, now)
	}
}

// Ours refuses a schedule by name where it stores limits, goes on elsewhere, and replaces it by limits of every
// kind, on buckets in use. Then both clients take from those. So with schedules that Python has replaced.
func TestSchedulesAreRefusedAndReplaced(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p := w.python()
		if w.release == older {
			return // it has none
		}
		one := limiter.Costs{"rpm": 1}
		scheduled := []kv{{"cron": "* * * * *", "tz": "Asia/Tokyo", "capacity": 2}}
		from := map[string]kv{
			"rate":  {"refill_amount": 5, "refill_period_seconds": 365 * 86_400},
			"quota": {"reset_schedule": []kv{{"cron": "0 0 1 1 *", "tz": "Asia/Tokyo"}}},
			"use":   {"reset_after": 86_400},
		}
		for _, limit := range from {
			for field, value := range (kv{"name": "rpm", "capacity": 5, "refill_amount": 0, "refill_period_seconds": 1,
				"schedule": scheduled}) {
				if limit[field] == nil {
					limit[field] = value
				}
			}
		}
		to := map[string]limiter.Limit{
			"rate": still("rpm", 3), "quota": limiter.Quota("rpm", 3, limiter.Monthly(1, "Asia/Tokyo")),
			"use": limiter.Quota("rpm", 3, limiter.FromFirstUse(24*time.Hour)), "soft": still("rpm", 3).AsSoft(),
		}
		for was, limit := range from {
			for is, with := range to {
				for _, used := range []bool{false, true} {
					entity := was + "-" + is + map[bool]string{true: "-used"}[used]
					p.call(nil, "set_limits", kv{"entity_id": entity, "resource": "api", "limits": []kv{limit}})
					if used {
						p.take(entity, "api", one)
					}
					request := limiter.Request{Entity: entity, Resource: "api", Costs: one}
					_, err := w.open().Acquire(w.Context(), request)
					if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), "_rpm_sched") {
						w.Errorf("%s: %v, want the schedule refused by name", entity, err)
					}
					w.set(entity, "api", with)
					w.replaced(entity)
					l := w.open()
					p = w.python()
					granted := 0
					for i := range 5 {
						if i%2 == 0 {
							if lease, err := p.tryAcquire(entity, "api", one, nil); err == nil {
								lease.commit()
								granted++
							} else if !err.denied() {
								w.Fatalf("%s: %v", entity, err)
							}
						} else if _, err := l.Acquire(w.Context(), request); err == nil {
							granted++
						} else if !errors.Is(err, limiter.ErrLimited) {
							w.Fatalf("%s: %v", entity, err)
						}
					}
					full := map[bool]int{false: 3, true: 5}[is == "soft"]
					if granted > full || granted < 1 || !used && granted < full {
						w.Errorf("%s: %d granted, want %d, or what is left where one was taken", entity, granted, full)
					}
				}
			}
		}
		for name, limit := range from {
			plain := kv{}
			for field, value := range limit {
				if field != "schedule" {
					plain[field] = value
				}
			}
			p.call(nil, "set_resource_defaults", kv{"resource": name, "limits": []kv{limit}})
			p.take("acme", name, one)
			p.take("python", name, one)
			p.call(nil, "set_resource_defaults", kv{"resource": name, "limits": []kv{plain}})
			p = w.python()
			p.take("python", name, one)
			p.denied("python", name, one) // by the schedule that is no longer stored: 2 of 5
			r := limiter.Request{Entity: "acme", Resource: name, Costs: one}
			_, err := w.open().Acquire(w.Context(), r)
			if !errors.Is(err, limiter.ErrUnreadable) || !strings.Contains(err.Error(), "zae-limiter limits reach") {
				w.Errorf("a schedule of a %s that Python has left in the bucket: %v", name, err)
			}
			if n, err := w.manage().Reach(w.Context(), admin.Scope{Resource: name}); err != nil || n.Changed != 2 {
				w.Errorf("reach %s: %+v, %v", name, n, err)
			}
			w.take(w.open(), "acme", name, one)
		}
	})
}

// replaced checks that nothing of a schedule is left where limits and levels of an entity are stored.
func (w *world) replaced(entity string) {
	w.Helper()
	for _, k := range []item.Key{layout.EntityConfigKey(w.ns, entity, "api"), layout.BucketKey(w.ns, entity, "api", 0)} {
		for attr, v := range w.item(k) {
			if attr == "sched" || strings.HasSuffix(attr, "_sched") {
				w.Errorf("%s: %v has %s %v", entity, k, attr, v)
			}
		}
	}
	found := 0
	for config, err := range w.manage().Configs(w.Context(), admin.Scope{}) {
		if config.Entity == entity && err == nil {
			found++
		}
	}
	if found != 1 {
		w.Errorf("%s: listed %d times", entity, found)
	}
}
