//go:build interop

package interop

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A debt by one client's settlement denies the other's requests. Refill and tokens given back by
// either client repay it.
func TestDebtIsShared(t *testing.T) {
	onBothEngines(t, func(w *world) {
		p := w.python()
		limits := []limiter.Limit{still("rpm", 100), still("tpm", 1000)}
		p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "gpt-4", "limits": pyLimits(limits...)})
		l := w.open(func(o *limiter.Options) { o.DenyFor = -1 })
		one := limiter.Costs{"rpm": 1, "tpm": 1}

		theirs := p.acquire("acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 1000})
		theirs.adjust(limiter.Costs{"tpm": 500})
		theirs.commit()
		w.wantLevels("Python is in debt", "acme", "gpt-4", levels{"rpm": 99_000, "tpm": -500_000})
		if d := w.denied(l, "acme", "gpt-4", one); d.Limit != "tpm" || d.Remaining != -500 {
			w.Errorf("denied by %s with %d left, want tpm with -500", d.Limit, d.Remaining)
		}
		p.denied("acme", "gpt-4", one)
		w.denied(l, "acme", "gpt-4", limiter.Costs{"rpm": 1}) // every limit in debt denies

		if w.lease(l, "acme", limiter.Costs{"tpm": 0}) != nil {
			w.Error("a request that costs nothing is granted in debt")
		}
		p.call(nil, "set_limits", kv{"entity_id": "other", "resource": "gpt-4", "limits": pyLimits(limits...)})
		lease := w.acquire(l, limiter.Request{Entity: "other", Resource: "gpt-4",
			Costs: limiter.Costs{"rpm": 1, "tpm": 900}})
		theirs = p.acquire("other", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 100})
		check.Must(w, lease.Settle(limiter.Costs{"tpm": 1200}))
		check.Must(w, lease.Commit(w.Context()))
		w.wantLevels("Go is in debt", "other", "gpt-4", levels{"rpm": 98_000, "tpm": -300_000})
		p.denied("other", "gpt-4", one)
		theirs.adjust(limiter.Costs{"tpm": -50})
		theirs.commit()
		w.wantLevels("Python gives back", "other", "gpt-4", levels{"rpm": 98_000, "tpm": -250_000})
	})
}

// After a denial both clients give the same wait, up to the time between the charge and the last
// question. Python does not see refill below a millitoken, which takes 60 ms here.
func TestBothGiveTheSameWait(t *testing.T) {
	onBothEngines(t, func(w *world) {
		p := w.python()
		p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api",
			"limits": pyLimits(limiter.PerHour("rpm", 60))})
		l := w.open(func(o *limiter.Options) { o.DenyFor = -1 })

		before := time.Now()
		w.take(l, "acme", "api", limiter.Costs{"rpm": 60})
		theirs := p.denied("acme", "api", limiter.Costs{"rpm": 2})
		ours := w.denied(l, "acme", "api", limiter.Costs{"rpm": 2}).RetryAfter
		var until float64
		p.call(&until, "time_until_available", kv{"entity_id": "acme", "resource": "api", "needed": limiter.Costs{"rpm": 2}})
		var left map[string]int64
		p.call(&left, "available", kv{"entity_id": "acme", "resource": "api"})
		passed := time.Since(before) + 5*time.Millisecond
		asked := time.Duration(until * float64(time.Second))
		w.Logf("a wait for 2 tokens at one a minute: Python %v, Go %v, time_until_available %v", theirs, ours, asked)
		if theirs-ours > passed || ours-theirs > passed || asked-ours > passed || ours-asked > passed {
			w.Errorf("Python says %v and %v, Go %v, all within %v", theirs, asked, ours, passed)
		}
		if left["rpm"] > int64(math.Ceil(passed.Minutes())) {
			w.Errorf("Python sees %d tokens of an empty bucket", left["rpm"])
		}
	})
}

// lease acquires with our client. It returns nil if denied.
func (w *world) lease(l *limiter.Limiter, entity string, costs limiter.Costs) *limiter.Lease {
	w.Helper()
	lease, err := l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Costs: costs})
	if err != nil && !errors.Is(err, limiter.ErrLimited) {
		w.Fatal(err)
	}
	return lease
}

// Python's available equals our bucket's level, for a bucket that only Go has written, while it
// refills.
func TestPythonSeesWhatIsAvailable(t *testing.T) {
	onBothEngines(t, func(w *world) {
		p, l := w.python(), w.open()
		limits := []limiter.Limit{limiter.PerSecond("rps", 100), still("tpm", 5000)}
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(limits...)})
		w.take(l, "acme", "api", limiter.Costs{"rps": 90, "tpm": 1234})
		for range 3 {
			time.Sleep(30 * time.Millisecond)
			from := time.Now().UnixMilli()
			var left map[string]int64
			p.call(&left, "available", kv{"entity_id": "acme", "resource": "api"})
			to := time.Now().UnixMilli()
			b := w.bucket("acme", "api")
			low, high := exact(b, "rps", from), exact(b, "rps", to)
			peek, err := w.manage().Peek(w.Context(), "acme", "api")
			if err != nil || len(peek) != 1 || len(peek[0].Levels) != 2 || peek[0].Levels[1].Remaining != 3766 {
				w.Errorf("we see %+v, %v", peek, err)
			}
			if left["tpm"] != 3766 || left["rps"] < low-1 || left["rps"] > high {
				w.Errorf("available %v, want tpm 3766 and rps %d to %d", left, low-1, high)
			}
		}
	})
}

// exact returns the whole tokens of a bucket at an instant.
func exact(b table.Shard, limit string, at int64) int64 {
	for _, sl := range b.State.Slots {
		if sl.Name == limit {
			return min(sl.Capacity, sl.Tokens+(at-b.State.RF)*sl.Amount/sl.Period) / bucket.Milli
		}
	}
	panic("bug: no limit " + limit)
}
