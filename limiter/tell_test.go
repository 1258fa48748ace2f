package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// sumOf adds up what the events that tell of no error say of a limit's costs.
func sumOf(limit string, sum *int64) func(context.Context, Event) {
	return func(_ context.Context, e Event) {
		if e.Err == nil {
			*sum += e.Costs[limit]
		}
	}
}

// What events say was taken and given back of slots adds up to nothing once the work is over: also where the
// slots stay for the next requests, and where they were lost.
func TestEventsAddUpWhereSlotsAreKept(t *testing.T) {
	for _, ahead := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, sum := newWorld(t), int64(0)
			l := w.process(Options{Ahead: ahead, Observe: sumOf("jobs", &sum)})
			req := asks(Costs{"jobs": 2}, InFlight("jobs", 20, time.Minute))
			for i := range 10 {
				lease := must(t, l, req)
				if sum != 2 {
					t.Fatalf("ahead %v: %d at work by the events, want 2", ahead, sum)
				}
				end := lease.Commit
				if i%2 == 0 {
					end = lease.Rollback
				}
				if err := end(t.Context()); err != nil || sum != 0 {
					t.Fatalf("ahead %v: %v; %d at work by the events, want none", ahead, err, sum)
				}
			}
			lost := must(t, l, req)
			w.advance(time.Hour)
			if err := lost.Commit(t.Context()); err != nil || sum != 0 {
				t.Errorf("ahead %v: %v; %d at work by the events after the slots were lost", ahead, err, sum)
			}
		})
	}
}

// A bypassed entity takes nothing, and events say so.
func TestEventsOfABypassedEntityAddUp(t *testing.T) {
	var sum int64
	w, l := family(t, 5, Options{})
	w.says(l, acme, gpt, "disabled", item.S("bypass"))
	l.opts.Observe = sumOf("rpm", &sum)
	for range 2 {
		lease := must(t, l, stored(Costs{"rpm": 1}))
		if err := errors.Join(lease.Settle(Costs{"rpm": 2}), lease.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if sum != 0 {
		t.Errorf("%d tokens by the events, want none", sum)
	}
}
