package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// crowd is one process whose acquires join: every write waits until the test answers it, or its
// caller gives up.
type crowd struct {
	t     *testing.T
	w     *world
	l     *Limiter
	sent  chan *answer
	calls []*call
}

// answer is a write under way.
type answer struct {
	op   memdynamo.Op
	done chan func() (bool, error)
}

// call is an acquire under way, and its result.
type call struct {
	costs  int64
	cancel context.CancelFunc
	lease  *Lease
	err    error
	took   time.Duration
	over   bool
}

var rph100 = PerHour("rph", 100)

// newCrowd returns a process with an image of its full bucket of 100 tokens.
func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, w: newWorld(t), sent: make(chan *answer, 100)}
	c.l = c.w.process(Options{})
	must(t, c.l, asks(Costs{"rph": 0}, rph100))
	c.w.db.ResetStats()
	c.w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.BatchGetItem {
			return true, nil
		}
		a := &answer{op: op, done: make(chan func() (bool, error), 1)}
		c.sent <- a
		select {
		case f := <-a.done:
			return f()
		case <-op.Done:
			return false, nil
		}
	})
	return c
}

// start begins an acquire and waits until it blocks.
func (c *crowd) start(cost int64, limits ...Limit) *call {
	if limits == nil {
		limits = []Limit{rph100}
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	one := &call{costs: cost, cancel: cancel}
	c.calls = append(c.calls, one)
	go func() {
		begin := time.Now()
		one.lease, one.err = c.l.Acquire(ctx, asks(Costs{"rph": cost}, limits...))
		one.took, one.over = time.Since(begin), true
	}()
	synctest.Wait()
	return one
}

// behind starts an acquire of one token, and others that wait for its write.
func (c *crowd) behind(costs ...int64) (first *answer, others []*call) {
	c.start(1)
	first = c.next()
	for _, n := range costs {
		others = append(others, c.start(n))
	}
	return first, others
}

// next returns the write that was sent next.
func (c *crowd) next() *answer {
	c.t.Helper()
	select {
	case a := <-c.sent:
		return a
	default:
		c.t.Fatal("no write is under way")
		return nil
	}
}

// quiet checks that no other write is under way.
func (c *crowd) quiet() {
	c.t.Helper()
	if len(c.sent) > 0 {
		c.t.Fatalf("%d more writes are under way", len(c.sent))
	}
}

// by ends a write with this outcome, and lets everything that depends on it continue.
func (a *answer) by(apply bool, err error) {
	a.done <- func() (bool, error) { return apply, err }
	synctest.Wait()
}

// want checks how a call ended.
func (c *crowd) want(one *call, kind string) {
	c.t.Helper()
	if !one.over || kindName(one.err) != kind {
		c.t.Fatalf("the acquire of %d: over %v, %v; want %s", one.costs, one.over, one.err, kind)
	}
	if kind == "unknown" && !errors.Is(one.err, ErrCanceled) &&
		!strings.Contains(one.err.Error(), ": UpdateItem: unknown: ") {
		c.t.Errorf("the acquire of %d: %v does not say which call", one.costs, one.err)
	}
}

// settled checks the counters, that nothing is reserved or waiting, and that every lease gives back
// exactly its own tokens.
func (c *crowd) settled(used int64) {
	c.t.Helper()
	c.w.db.SetHook(nil)
	check.Equal(c.t, c.w.used(c.l, "rph"), used, "counted used")
	atRest(c.t, c.l)
	for _, one := range c.calls {
		if one.lease == nil || !one.lease.Charged() {
			continue
		}
		check.NoError(c.t, one.lease.Rollback(c.t.Context()))
		used -= one.costs
		check.Equal(c.t, c.w.used(c.l, "rph"), used, "counted used after a lease of %d was given back", one.costs)
	}
}

// atRest checks, in a bubble, that an idle process reserves nothing: the write of a group ends
// after its members have been answered.
func atRest(t *testing.T, l *Limiter) {
	t.Helper()
	synctest.Wait()
	reservesNothing(t, l)
}

// reservesNothing is atRest outside of a bubble, for processes without groups.
func reservesNothing(t *testing.T, l *Limiter) {
	t.Helper()
	for i, s := range seen(l) {
		if !s.Idle {
			t.Errorf("shard %d: something is still under way", i)
		}
	}
}

// Acquires that find a write under way go out together in the next one, and each lease has its own
// costs.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		a := c.start(1)
		first := c.next()
		b, d, e := c.start(2), c.start(3), c.start(0)
		c.quiet()
		first.by(true, nil)
		c.want(a, "granted")
		c.next().by(true, nil)
		for _, one := range []*call{b, d, e} {
			c.want(one, "granted")
		}
		c.quiet()
		check.Equal(t, c.w.db.Stats().Calls(), 2, "calls for four acquires")
		c.settled(6)
	})
}

// A caller that leaves before its group is sent has taken nothing, and does not affect the others.
func TestCancelledBeforeTheGroupWentOut(t *testing.T) {
	for _, who := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t)
			first, waiting := c.behind(2, 3, 4)
			waiting[who].cancel()
			synctest.Wait()
			c.want(waiting[who], "unavailable")
			check.Is(t, waiting[who].err, context.Canceled, "which does not say that it was canceled")
			first.by(true, nil)
			c.next().by(true, nil)
			used := int64(1)
			for i, one := range waiting {
				if i != who {
					c.want(one, "granted")
					used += one.costs
				}
			}
			c.settled(used)
		})
	}
}

// If many callers leave, one write gives back all their tokens, and is repeated while DynamoDB does
// not accept it. If it is unknown whether it is needed, or was done, nothing is given back.
// Observers are notified.
func TestManyCancelledAfterTheGroupWentOut(t *testing.T) {
	unavailable, lost := memdynamo.Fail(store.Unavailable), memdynamo.Fail(store.Unknown)
	for _, c := range []struct {
		name   string
		group  error   // what answers the group's write, which is applied
		backs  []error // what answers the give-backs
		left   int64
		events string
	}{
		{"given back", nil, []error{nil}, 1 + 5, "[ok]"},
		{"taken at the third time", nil, []error{unavailable, memdynamo.Fail(store.Throttled), nil}, 1 + 5, "[ok]"},
		{"never taken", nil, []error{unavailable, unavailable, unavailable, unavailable}, 1 + 14, "[unavailable]"},
		{"its answer is lost", nil, []error{lost}, 1 + 14, "[unknown]"},
		{"the group's answer is lost", lost, nil, 1 + 14, "[]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			crowd := newCrowd(t)
			var events []string
			crowd.l.opts.Observe = func(_ context.Context, e Event) {
				if e.Kind == EventRollback {
					events = append(events, e.Outcome())
				}
			}
			first, group := crowd.behind(2, 3, 4, 5)
			first.by(true, nil)
			second := crowd.next()
			for _, one := range group[:3] {
				one.cancel()
			}
			synctest.Wait()
			second.by(true, c.group)
			for i, err := range c.backs {
				if i > 0 {
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
				}
				crowd.next().by(err == nil, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			crowd.quiet()
			for _, one := range group[:3] {
				crowd.want(one, "unknown")
			}
			check.Equal(t, fmt.Sprint(events), c.events, "%s: reported rollbacks %v", c.name, events)
			crowd.settled(c.left)
		})
	}
}

// A lost answer is unknown for every member of the group, whether or not the write was performed; a
// write that was not performed took nothing for any of them.
func TestGroupWithoutAnAnswer(t *testing.T) {
	for _, f := range []struct {
		apply bool
		kind  store.Kind
		want  string
	}{{true, store.Unknown, "unknown"}, {false, store.Unknown, "unknown"}, {false, store.Unavailable, "unavailable"}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t)
			first, group := c.behind(2, 3, 4)
			first.by(true, nil)
			c.next().by(f.apply, memdynamo.Fail(f.kind))
			used := int64(1)
			for _, one := range group {
				c.want(one, f.want)
				if f.apply {
					used += one.costs
				}
			}
			c.settled(used)
		})
	}
}

// An answer to a group counts as one answer of the table, and its silence as one silent call.
func TestAnswerToAGroupIsOneAnswer(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t)
			lost := memdynamo.Fail(store.Unknown)
			first, _ := c.behind(2, 3, 4)
			first.by(false, lost)
			if answers {
				c.next().by(true, nil)
				c.start(1)
			}
			c.next().by(false, lost)
			if c.l.desks.Breaker.Open() {
				t.Errorf("open after two calls without an answer in a row; the group answers: %v", answers)
			}
			c.start(1)
			c.next().by(false, lost)
			if open := c.l.desks.Breaker.Open(); open == answers {
				t.Errorf("open: %v, the group answers: %v", open, answers)
			}
		})
	}
}

// Waiting for another request's write counts as a round trip, too.
func TestWaitingForAWriteIsARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		first, behind := c.behind(2)
		first.by(true, nil)
		for range decide.MaxTrips - 1 {
			next := c.next()
			next.by(false, c.w.refusedNow(next.op))
		}
		c.quiet()
		c.want(behind[0], "denied")
		c.settled(1)
	})
}

// A write that arrives more than a second late, because the process stood still, proves nothing
// about the tokens: others have moved the clock of the bucket, which is full.
func TestAWriteThatIsLateIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		first, behind := c.behind(2)
		first.by(true, nil)
		for range decide.MaxTrips + 1 {
			late := c.next()
			c.w.advance(table.MaxLag*time.Millisecond + time.Millisecond)
			must(t, c.w.bystander(c.l), asks(Costs{"rph": 0}, rph100))
			late.by(true, nil)
		}
		c.next().by(true, nil)
		c.want(behind[0], "granted")
		c.settled(3)
	})
}

// A hanging write is overtaken after a while by all waiting requests together; only its own request
// fails.
func TestHungWriteIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		hung := c.start(1)
		c.next() // and never answered
		time.Sleep(decide.LeastPatience / 10)
		b := c.start(2)
		time.Sleep(decide.LeastPatience / 2)
		d := c.start(3)
		c.quiet()
		time.Sleep(decide.LeastPatience/2 - decide.LeastPatience/10)
		synctest.Wait()
		c.next().by(true, nil)
		c.want(b, "granted")
		c.want(d, "granted")
		if b.took != decide.LeastPatience*9/10 || d.took != decide.LeastPatience*4/10 {
			t.Errorf("waited %s and %s, want until %s after the write that hangs", b.took, d.took, decide.LeastPatience)
		}
		e := c.start(4) // it does not wait for the hanging write
		c.next().by(true, nil)
		c.want(e, "granted")
		time.Sleep(c.l.opts.Timeout)
		synctest.Wait()
		c.want(hung, "unknown")
		c.settled(9)
	})
}

// A group that is never answered is unknown to each member when the bound of that member's call is
// over.
func TestGroupThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		c.l.desks.Timeout = time.Second
		c.start(1)
		first := c.next()
		var group []*call
		for n := range int64(3) {
			time.Sleep(time.Millisecond)
			group = append(group, c.start(2+n))
		}
		first.by(true, nil)
		c.next() // and never answered
		time.Sleep(time.Second - 3*time.Millisecond)
		for _, one := range group {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			c.want(one, "unknown")
			check.Equal(t, one.took, time.Second, "took, want the timeout")
		}
		time.Sleep(time.Second)
		c.settled(1)
	})
}

// A DynamoDB client that panics while it sends a group does not end the process: the outcome of the
// write is unknown.
func TestPanicInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		first, group := c.behind(2, 3)
		first.by(true, nil)
		c.next().done <- func() (bool, error) { panic("middleware") }
		synctest.Wait()
		for _, one := range group {
			c.want(one, "unknown")
			if !strings.HasSuffix(one.err.Error(), ": panic: middleware") {
				t.Errorf("got %v, which does not say what panicked", one.err)
			}
		}
		e := c.start(4)
		c.next().by(true, nil)
		c.want(e, "granted")
		c.settled(5)
	})
}

// Every write is reported once: for acquires that go out together, with the first of them.
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
			c.next().by(true, nil) // for requests whose callers still wait
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
					t.Errorf("%d writes were reported, and %d sent", told.Load(), sent)
				}
			})
		})
	}
}

// An answered caller does not find its own write under way: otherwise its next acquire would count
// as a round trip, and wait for a finished call.
func TestAnAnsweredCallerMeetsNoWriteOfItsOwn(t *testing.T) {
	_, l := newProcess(t, Options{})
	for n := range 5000 {
		must(t, l, asks(Costs{"rph": 0}, rph100))
		if !l.desks.Of(acmeGPT).Seen(0).Idle {
			t.Fatalf("after %d acquires, the last one is under way still", n+1)
		}
	}
}

// An observer that panics does not block the bucket in this process.
func TestPanicOfTheObserverClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		panics := true
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: func(_ context.Context, e Event) {
			if e.Kind == EventAhead && panics {
				panics = false
				panic("observer")
			}
		}})
		for range 600 {
			_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1}, rps1000))
			if kindName(err) == "denied" {
				t.Fatal(err)
			}
			w.pass(time.Millisecond)
		}
		if panics {
			t.Error("nothing was taken ahead")
		}
		l.desks.Wait()
	})
}

// An observer that panics when limits were replaced loses no tokens.
func TestAnObserverThatPanicsOnAYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		panics := 0
		l := w.process(Options{Observe: func(_ context.Context, e Event) {
			if e.Kind == EventYield {
				panics++
				panic("observer")
			}
		}})
		must(t, l, asks(Costs{"rpm": 1}, rpm10))
		must(t, w.bystander(l), asks(Costs{"rpm": 1}, PerMinute("rpm", 20)))
		for range 3 {
			func() {
				defer func() { _ = recover() }()
				lease, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
				if err == nil {
					err = lease.Rollback(t.Context())
				}
				if err != nil && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}()
			l.desks.Wait()
		}
		b := w.shards(l, acme, gpt)[0]
		if used := b.State.Slots[b.State.Index("rpm")].Used; used != 2000 || panics == 0 {
			t.Errorf("%d millitokens are used after %d panics, want 2000", used, panics)
		}
		reservesNothing(t, l)
	})
}

// The same, on the goroutine of the caller: its own process has replaced the limits.
func TestAnObserverThatPanicsOnAYieldOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		panicked := false
		l := w.process(Options{Observe: only(EventYield, func(Event) { panic("observer") })})
		must(t, l, asks(Costs{"rpm": 1}, rpm10))
		must(t, l, asks(Costs{"rpm": 1}, PerMinute("rpm", 20)))
		func() {
			defer func() { panicked = recover() != nil }()
			_, _ = l.Acquire(t.Context(), asks(Costs{"rpm": 5}, rpm10))
		}()
		l.desks.Wait()
		b := w.shards(l, acme, gpt)[0]
		if used := b.State.Slots[b.State.Index("rpm")].Used; used != 2000 || !panicked {
			t.Errorf("%d millitokens are used, want 2000; panicked %v", used, panicked)
		}
		reservesNothing(t, l)
	})
}
