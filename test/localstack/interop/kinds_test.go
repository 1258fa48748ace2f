//go:build interop

package interop

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Python ignores slots and floors, on buckets of either client: its requests take no slot and leave
// no floor, and its writes keep our counters.
func TestPythonPassesOverSlotsAndFloors(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		w.set("", "api", still("rpm", 10).WithFloor("batch", 40), limiter.InFlight("jobs", 2, 10*time.Minute))
		both, rpm := limiter.Costs{"rpm": 1, "jobs": 1}, limiter.Costs{"rpm": 1}
		batch := func(entity string) error {
			_, err := l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "api", Costs: rpm, Class: "batch"})
			return err
		}
		for _, first := range []string{"python", "go"} { // creates the bucket
			if first == "python" {
				p.take(first, "api", rpm)
			} else {
				w.take(l, first, "api", rpm)
			}
			one := w.acquire(l, limiter.Request{Entity: first, Resource: "api", Costs: both})
			two := w.acquire(l, limiter.Request{Entity: first, Resource: "api", Costs: both})
			p.take(first, "api", rpm) // both slots stay taken
			if denied := w.denied(l, first, "api", both); denied.Limit != "jobs" {
				w.Errorf("%s: denied by %s, want jobs", first, denied.Limit)
			}
			lease := p.acquire(first, "api", limiter.Costs{"rpm": 2})
			lease.adjust(limiter.Costs{"rpm": -1})
			lease.commit()
			check.Must(w, one.Commit(w.Context()))
			w.take(l, first, "api", both)
			w.denied(l, first, "api", both)
			check.Must(w, two.Rollback(w.Context()))

			p.take(first, "api", rpm)
			check.Is(w, batch(first), limiter.ErrLimited, "%s: batch does not leave 4 of 10 to others", first)
			p.take(first, "api", limiter.Costs{"rpm": 4})                            // the floor that batch leaves
			w.wantLevels("by "+first, first, "api", levels{"rpm": 0, "jobs": 1_000}) // one of 2 slots is taken
		}
	})
}

// After Python's set_limits, only its limits are in force: our floors, slots and prefetch times are
// gone.
func TestSetLimitsOfPythonDropsWhatOnlyOursHas(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p := w.python()
		at := admin.Scope{Entity: "acme", Resource: "api"}
		check.Must(w, w.manage().SetLimits(w.Context(), at, still("rpm", 10).WithFloor("batch", 40),
			still("tpm", 10).WithAhead(time.Second), limiter.InFlight("jobs", 2, time.Minute)))
		key := layout.EntityConfigKey(w.ns, "acme", "api")
		attrs := []string{"l_rpm_fl", "l_tpm_ah", "s_jobs_cp", "s_jobs_rp"}
		has := func(when string, want bool) {
			w.Helper()
			it := w.item(key)
			for _, attr := range attrs {
				if _, ok := it[attr]; ok != want {
					w.Errorf("%s: %s is stored: %v, want %v", when, attr, ok, want)
				}
			}
		}
		has("stored by ours", true)
		var got []pyLimit
		p.call(&got, "get_limits", kv{"entity_id": "acme", "resource": "api"})
		check.Equal(w, len(got), 2, "Python reads %+v, want rpm and tpm", got)
		p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api",
			"limits": pyLimits(still("rpm", 10), still("tpm", 10))})
		has("stored by Python", false)
		w.take(w.open(), "acme", "api", limiter.Costs{"rpm": 9})
	})
}

// Python serves a bucket with any number of limits, and 0.10.3 one with any number of tokens. Our
// client refuses more than 32 limits and, like 0.17.0, more than 10^15 tokens of one limit. The
// error is not a denial, and the bucket is unchanged.
func TestLimitsThatOnlyOursRefuses(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		var many []pyLimit
		for i := range 33 {
			many = append(many, pyLimits(still(fmt.Sprint("limit", i), 100))...)
		}
		huge := pyLimits(still("limit0", 1_000_000_000_000_001))
		for entity, limits := range map[string][]pyLimit{"many": many, "huge": huge} {
			err := p.try(nil, "set_limits", kv{"entity_id": entity, "resource": "api", "limits": limits})
			if entity == "huge" && w.release == newer {
				if err == nil {
					w.Error("Python stores more than 10^15 tokens")
				}
				continue
			} else if err != nil {
				w.Fatal(err)
			}
			r := limiter.Request{Entity: entity, Resource: "api", Costs: limiter.Costs{"limit0": 1}}
			for range 2 { // without a bucket, and with one
				_, err := l.Acquire(w.Context(), r)
				if err == nil || errors.Is(err, limiter.ErrLimited) {
					w.Errorf("%s: acquire: %v, want it refused", entity, err)
				}
				p.take(entity, "api", limiter.Costs{"limit0": 1})
			}
			w.wantLevelOf(entity, "limit0", map[string]int64{"many": 98, "huge": 999_999_999_999_999}[entity])
		}
	})
}

// wantLevelOf compares one level of a bucket, in tokens.
func (w *world) wantLevelOf(entity, limit string, want int64) {
	w.Helper()
	check.Equal(w, levelsOf(w.bucket(entity, "api"))[limit], want*1000,
		"%s: %s is at millitokens, want %d tokens", entity, limit, want)
}
