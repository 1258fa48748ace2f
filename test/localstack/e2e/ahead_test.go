package e2e

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Processes that take ahead share a bucket on a real engine: what they grant from what they
// hold is within what the bucket allows, at the instants at which they grant it.
func TestTakenAheadIsExact(t *testing.T) {
	for _, kind := range []engine.Kind{engine.Dynoxide, engine.DynamoDBLocal} {
		t.Run(string(kind), func(t *testing.T) {
			r := start(t, setup{kind: kind})
			tn := tenant{entity: "ahead", resource: "gpt", limits: []limiter.Limit{limiter.PerHour("rph", 400)}}
			var b book
			var ahead, granted atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				l := r.holding(&ahead)
				all.Go(func() {
					for range 300 { // 1,200 of 400
						c := call{tenant: tn, costs: limiter.Costs{"rph": 1}, sent: now()}
						_, err := l.Acquire(t.Context(), limiter.Request{Entity: tn.entity, Resource: tn.resource,
							Costs: c.costs, Limits: tn.limits})
						c.answered = now()
						switch {
						case err == nil:
							granted.Add(1)
							b.grant(c)
						case !errors.Is(err, limiter.ErrLimited):
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			r.rest()
			t.Logf("%d granted, %d of them from what was taken ahead", granted.Load(), ahead.Load())
			if ahead.Load() == 0 {
				t.Error("nothing was taken ahead")
			}
			judged, err := b.Judge(0, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range judged {
				if j.Excess > 0 {
					t.Errorf("%v: %v", j.Account, j.Result)
				}
			}
			if len(judged) != 1 {
				t.Errorf("%d accounts were judged", len(judged))
			}
		})
	}
}

// holding opens a client that takes ahead, and counts what it grants from that.
func (r *rig) holding(ahead *atomic.Int64) *limiter.Limiter {
	r.t.Helper()
	l, err := limiter.Open(r.t.Context(), r.clientEngine.DynamoDB(), r.Table, &limiter.Options{Namespace: namespace,
		Timeout: patience, Ahead: 10 * time.Minute, Observe: func(_ context.Context, e limiter.Event) {
			if e.Ahead {
				ahead.Add(1)
			}
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}
