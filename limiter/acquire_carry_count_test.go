package limiter

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Every write is told of once: those of acquires that go out together, with the first of them.
func TestWritesOfGroupsAreReported(t *testing.T) {
	for name, answer := range map[string]func(c *crowd, a *answer){
		"granted": func(c *crowd, a *answer) { a.by(true, nil) },
		"lost":    func(c *crowd, a *answer) { a.by(true, &store.Failure{Kind: store.Unknown, Op: "UpdateItem"}) },
		"sent again": func(c *crowd, a *answer) {
			a.by(false, c.w.refusedNow(a.op))
			c.next().by(true, nil)
		},
		"sent again without the first": func(c *crowd, a *answer) {
			c.calls[1].cancel()
			synctest.Wait()
			a.by(false, c.w.refusedNow(a.op))
			c.next().by(true, nil) // for those whose callers still wait
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t)
				var told atomic.Int64
				c.l.opts.Observe = func(_ context.Context, e Event) { told.Add(int64(e.Writes)) }
				first, _ := c.behind(2, 3, 4)
				first.by(true, nil)
				answer(c, c.next())
				c.quiet()
				for _, one := range c.calls {
					if !one.over {
						t.Error("an acquire is not over")
					}
				}
				sent := int64(2)
				switch name {
				case "sent again", "sent again without the first":
					sent = 3
				}
				if told.Load() != sent {
					t.Errorf("%d writes were told of, and %d sent", told.Load(), sent)
				}
			})
		})
	}
}

// A caller that is answered meets nothing of its own write: the next acquire would count as a round trip
// that it waits for what is over.
func TestAnAnsweredCallerMeetsNoWriteOfItsOwn(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	for n := range 5000 {
		must(t, l, asks(Costs{"rph": 0}, rph100))
		if !l.desks.Of(acmeGPT).Seen(0).Idle {
			t.Fatalf("after %d acquires, the last one is under way still", n+1)
		}
	}
}
