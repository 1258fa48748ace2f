//go:build interop

package interop

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// scheduled is a Python limit that refills next to nothing, with windows.
func scheduled(name string, capacity int64, windows ...kv) kv {
	return kv{"name": name, "capacity": capacity, "refill_amount": 1, "refill_period_seconds": 3650 * 86_400,
		"schedule": append([]kv{}, windows...)}
}

// withWindows is one of our limits of that kind, with a schedule in its stored form.
func withWindows(name string, capacity int64, schedule string) limiter.Limit {
	l := still(name, capacity)
	l.Schedule = schedule
	return l
}

// tries makes requests with both clients in turn until both deny, and returns the number of grants.
func (w *world) tries(oursFirst bool, entity string, costs limiter.Costs) (granted int) {
	w.Helper()
	l, p := w.open(), w.python() // without cached denials
	ours := func() bool {
		_, err := l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "api", Costs: costs})
		if err != nil && !errors.Is(err, limiter.ErrLimited) {
			w.Fatalf("%s: %v", entity, err)
		}
		return err == nil
	}
	theirs := func() bool {
		lease, err := p.tryAcquire(entity, "api", costs, nil)
		if err != nil && !err.denied() {
			w.Fatalf("%s: %v", entity, err)
		}
		if lease != nil {
			lease.commit()
		}
		return lease != nil
	}
	order := []func() bool{theirs, ours}
	if oursFirst {
		slices.Reverse(order)
	}
	for denied := 0; denied < 2; {
		for _, try := range order {
			if denied++; try() {
				granted, denied = granted+1, 0
			}
		}
	}
	return granted
}

// Both clients obey a schedule that either stores, on buckets of either, until either removes it.
// Each reads what the other stored.
func TestSchedulesAreShared(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		p := w.python()
		month := int(time.Now().UTC().AddDate(0, 6, 0).Month()) // not now in any zone
		never := kv{"cron": fmt.Sprintf("* * * %d *", month), "tz": "Asia/Tokyo", "capacity": 1}
		always := func(what string, n any) kv { return kv{"cron": "* * * * *", "tz": "Asia/Tokyo", what: n} }
		neverForm := fmt.Sprintf("M%dc1", month)
		one := limiter.Costs{"rpm": 1, "tpm": 1, "plain": 3}
		for i, c := range []struct {
			name    string
			windows []kv
			form    string
			want    int
		}{
			{"half", []kv{always("scale", 0.5)}, "s500@Asia/Tokyo", 4},
			{"part", []kv{always("scale", 0.3)}, "s300@Asia/Tokyo", 2}, // of 2.4
			{"twice", []kv{always("scale", 2)}, "s2000@Asia/Tokyo", 16},
			{"three", []kv{always("capacity", 3), always("capacity", 5)}, "c3;c5@Asia/Tokyo", 3},
			{"never", []kv{never}, neverForm + "@Asia/Tokyo", 8},
			{"first", []kv{never, always("capacity", 5)}, neverForm + ";c5@Asia/Tokyo", 5},
		} {
			for _, ours := range []bool{false, true} { // ours stores it
				first, removes := ours == (i%2 == 0), ours == (i/2%2 == 0) // ours does it
				entity := fmt.Sprintf("%s-%v", c.name, ours)
				at := admin.Scope{Entity: entity, Resource: "api"}
				set := func(ours bool, windows []kv, form string) {
					w.Helper()
					if ours { // tpm has the same schedule, plain has none
						w.set(entity, "api", withWindows("rpm", 8, form), withWindows("tpm", 80, form), still("plain", 100))
						return
					}
					p.call(nil, "set_limits", kv{"entity_id": entity, "resource": "api", "limits": []kv{
						scheduled("rpm", 8, windows...), scheduled("tpm", 80, windows...), scheduled("plain", 100)}})
				}
				set(ours, c.windows, c.form)
				if config, err := w.manage().Config(w.Context(), at); err != nil || config.Limits[1].Schedule != c.form {
					w.Errorf("%s: ours reads %+v, %v", entity, config.Limits, err)
				}
				var got []struct{ Schedule []kv }
				w.python().call(&got, "get_limits", kv{"entity_id": entity, "resource": "api"})
				for _, l := range got {
					for _, window := range l.Schedule {
						for field, value := range window {
							if value == nil || field == "_reset" {
								delete(window, field)
							}
						}
					}
				}
				slices.SortFunc(got, func(a, b struct{ Schedule []kv }) int { return len(a.Schedule) - len(b.Schedule) })
				var want []kv
				recode(w, c.windows, &want)
				if len(got) != 3 || len(got[0].Schedule) != 0 || !reflect.DeepEqual(got[2].Schedule, want) {
					w.Errorf("%s: Python reads %v, want %v", entity, got, want)
				}
				check.Equal(w, w.tries(first, entity, one), c.want, "%s: granted", entity)
				set(removes, nil, "")
				check.Must(w, check.Err(w.manage().Reset(w.Context(), entity, "api")))
				check.Equal(w, w.tries(!first, entity, one), 8, "%s: granted without the schedule", entity)
				w.unscheduled(entity)
			}
		}
	})
}

// If Python removes a resource's schedule, it stays in the buckets, and Python goes on to obey it.
// Our client uses the stored limits, and removes it with its next write. One schedule for all
// limits of a bucket is Python's short form.
func TestSchedulesThatPythonLeavesInBuckets(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		p := w.python()
		half := kv{"cron": "* * * * *", "scale": 0.5}
		set := func(windows ...kv) {
			w.Helper()
			p.call(nil, "set_resource_defaults", kv{"resource": "api",
				"limits": []kv{scheduled("rpm", 8, windows...), scheduled("tpm", 80, windows...)}})
		}
		one := limiter.Costs{"rpm": 1, "tpm": 2}
		set(half)
		p.take("acme", "api", one)
		key := layout.BucketKey(w.ns, "acme", "api", 0)
		if it := w.item(key); it["sched"] == nil {
			w.Errorf("Python stores %v, want one schedule for both limits", it)
		}
		w.take(w.open(), "acme", "api", one)
		check.Equal(w, w.tries(true, "acme", one), 2, "granted of 4 that are left")
		set()
		w.denied(w.open(), "acme", "api", one)
		check.Must(w, check.Err(w.manage().Reach(w.Context(), admin.Scope{Resource: "api"})))
		for _, sl := range w.bucket("acme", "api").State.Slots {
			check.Equal(w, sl.Schedule(), "", "left: %+v", sl)
		}
		check.Must(w, check.Err(w.manage().Reset(w.Context(), "acme", "api")))
		check.Equal(w, w.tries(false, "acme", one), 8, "granted without the schedule")
	})
}

// unscheduled checks that neither the limits nor the levels of an entity have a schedule.
func (w *world) unscheduled(entity string) {
	w.Helper()
	for _, sl := range w.bucket(entity, "api").State.Slots {
		check.Equal(w, sl.Schedule(), "", "%s: the bucket has %+v", entity, sl)
	}
	for attr := range w.item(layout.EntityConfigKey(w.ns, entity, "api")) {
		if strings.HasSuffix(attr, "_sched") {
			w.Errorf("%s: %s is stored", entity, attr)
		}
	}
}

// Around the edge of a window, both clients together grant exactly what is allowed before and after
// it: whoever wrote last before the edge, the next client checks the clock.
func TestEdgesOfWindowsAreShared(t *testing.T) {
	withNewer(t, func(w *world) {
		w.open()
		edge := time.Now().UTC().Truncate(time.Minute).Add(30 * time.Minute)
		minutes := ""
		for i := range 10 {
			minutes += fmt.Sprintf(",%d", (edge.Minute()+i)%60)
		}
		minutes = minutes[1:]
		during := func(l limiter.Limit, other limiter.Limit) limiter.Limit {
			return l.During(minutes+" * * * *", "", other)
		}
		one := limiter.Costs{"rpm": 1}
		limits := map[string]limiter.Limit{
			"lower":  during(still("rpm", 9), limiter.Limit{Capacity: 3}),
			"raise":  during(still("rpm", 9), limiter.Limit{Capacity: 20}),
			"refill": during(still("rpm", 9), limiter.Limit{Refill: 10, Period: time.Second}),
		}
		for name, limit := range limits {
			for _, first := range []bool{false, true} {
				entity := fmt.Sprintf("%s-%v", name, first)
				w.set(entity, "api", limit)
				if name == "refill" {
					check.Equal(w, w.tries(first, entity, one), 9, "%s: granted before the edge", entity)
					continue
				}
				l, p := w.open(), w.python()
				takes := []func(){func() { p.take(entity, "api", one) }, func() { w.take(l, entity, "api", one) }}
				if first {
					slices.Reverse(takes)
				}
				takes[0]()
				takes[1]()
			}
		}
		left := time.Until(edge) + 2*time.Second
		if denied := w.denied(w.open(), "refill-true", "api", limiter.Costs{"rpm": 9}); denied.RetryAfter > left {
			w.Errorf("retry after %s, the window refills it in less than %s", denied.RetryAfter, left)
		}
		w.advance(edge.Add(1100 * time.Millisecond)) // our limit changes after a second
		for _, first := range []bool{false, true} {
			for name, want := range map[string]int{"lower": 3, "raise": 7} {
				entity := fmt.Sprintf("%s-%v", name, first)
				check.Equal(w, w.tries(first, entity, one), want, "%s: granted behind the edge", entity)
			}
			n := w.tries(first, fmt.Sprintf("refill-%v", first), one)
			if most := int(10 * w.now().Sub(edge).Seconds()); n < 1 || n > most {
				w.Errorf("%d granted at the rate behind the edge, want 1 to %d", n, most)
			}
		}
	})
}

// Python ignores our raises, of inherited limits too: it creates buckets by the plain limit, and
// takes what a raised bucket holds. After the end, both use the plain limit. Limits stored by
// Python replace the raise.
func TestRaisesBesidePython(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p := w.python()
		one := limiter.Costs{"rpm": 1}
		w.set("", "api", still("rpm", 8))
		raise := func(entity string, until time.Time) {
			w.Helper()
			got, err := w.manage().Raise(w.Context(), entity, "api", limiter.Costs{"rpm": 4}, until)
			if check.Must(w, err); len(got) != 1 { // one in ten years is five, so the capacity is 40
				w.Fatalf("raised by %v", got)
			}
		}
		later := time.Now().Add(time.Hour)
		for oursFirst, want := range map[bool]int{true: 40, false: 8} {
			entity := fmt.Sprintf("first-%v", oursFirst)
			raise(entity, later)
			check.Equal(w, w.tries(oursFirst, entity, one), want, "%s: granted", entity)
			var stored []kv
			p.call(&stored, "get_limits", kv{"entity_id": entity, "resource": "api"})
			check.Equal(w, len(stored), 0, "%s: Python reads limits of its own, %v", entity, stored)
		}
		ends := time.Now().Add(30 * time.Minute)
		raise("ends", ends)
		w.take(w.open(), "ends", "api", one)
		w.advance(ends.Add(1100 * time.Millisecond)) // our limit changes after a second
		check.Equal(w, w.tries(true, "ends", one), 8, "granted behind the end")
		w.advance(time.Now())
		at := admin.Scope{Entity: "first-true", Resource: "api"}
		p.call(nil, "set_limits", kv{"entity_id": at.Entity, "resource": at.Resource,
			"limits": []kv{{"name": "rpm", "capacity": 3, "refill_amount": 1, "refill_period_seconds": 60}}})
		if c, err := w.manage().Config(w.Context(), at); err != nil || c.Raises != nil || len(c.Limits) != 1 {
			w.Errorf("after Python's limits: %+v, %v", c, err)
		}
		if w.release == older {
			return
		}
		w.set("", "api", limiter.Quota("rpm", 8, limiter.Yearly(time.Now().AddDate(0, 6, 0).Month(), 1, "")))
		for oursFirst := range map[bool]bool{true: true, false: true} {
			entity := fmt.Sprintf("quota-%v", oursFirst)
			raise(entity, later)
			check.Equal(w, w.tries(oursFirst, entity, one), 12, "%s: granted", entity)
		}
	})
}
