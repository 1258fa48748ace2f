package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// When a denial says when to come back, and not that this is an estimate, the request is granted
// then if nobody else has come, in a process that takes ahead too.
func TestRetryAfterHoldsWithPrefetch(t *testing.T) {
	told := 0
	for seed := range uint64(600) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, seed))
			w, l := newProcess(t, Options{Ahead: time.Duration(1+r.IntN(3)) * time.Second})
			var limits []Limit
			for _, name := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
				x := Limit{Name: name, Capacity: 1 + r.Int64N(50), Refill: 1 + r.Int64N(50),
					Period: time.Duration(1+r.IntN(100)) * time.Second}
				if r.IntN(4) == 0 {
					x = x.WithFloor("batch", r.IntN(60))
				}
				limits = append(limits, x)
			}
			for range 60 {
				costs := Costs{}
				for _, x := range limits {
					costs[x.Name] = r.Int64N(min(x.Capacity, 12) + 1)
				}
				req := asks(costs, limits...)
				if r.IntN(3) == 0 {
					req.Class = "batch"
				}
				w.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
				lease, err := l.Acquire(context.Background(), req)
				l.desks.Wait()
				if err == nil {
					if r.IntN(3) == 0 {
						fine(t, lease.Rollback(context.Background()))
					}
					continue
				}
				d, denied := errors.AsType[*LimitError](err)
				if !denied {
					continue
				}
				if d.Remaining >= d.Wanted || !slices.ContainsFunc(d.Statuses, func(s Status) bool {
					return s.Limit == d.Limit && s.Remaining == d.Remaining
				}) {
					t.Fatalf("seed %d: %v, status %+v", seed, err, d.Statuses)
				}
				if d.Estimated {
					continue
				}
				told++
				w.pass(d.RetryAfter)
				if _, err := l.Acquire(context.Background(), req); err != nil {
					t.Fatalf("seed %d: %v of %v: %v, and then %v", seed, costs, limits, d, err)
				}
				l.desks.Wait()
			}
		})
	}
	if told < 1000 {
		t.Errorf("only %d denials told an instant", told)
	}
	t.Logf("%d told instants held", told)
}
