package limiter

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// outages are ways in which a table gives no decision.
var outages = map[string]memdynamo.Hook{
	"hung":      func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil },
	"throttled": func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Throttled) },
	"down":      func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) },
	"lost":      func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unknown) },
	"hung, and throttled where it writes": func(op memdynamo.Op) (bool, error) {
		if isWrite(op) {
			return false, memdynamo.Fail(store.Throttled)
		}
		<-op.Done
		return false, nil
	},
	"throttled, and hung where it writes": func(op memdynamo.Op) (bool, error) {
		if isWrite(op) {
			<-op.Done
			return false, nil
		}
		return false, memdynamo.Fail(store.Throttled)
	},
}

// A caller with one request per second, such as one instance of a Lambda function, gets its
// policy's answer within 100 ms from the fourth call on, whatever the table does, and whether or
// not its configuration is cached. Nothing is taken. When the table answers again, the next call is
// charged, or one Options.Timeout later.
func TestTheSeldomCallerBehindAnOutage(t *testing.T) {
	for name, outage := range outages {
		for _, policy := range []Policy{PolicyBlock, PolicyAllow, PolicyLocal} {
			for _, warm := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/warm %v", name, policy, warm), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { seldom(t, outage, policy, warm, false) })
				})
				t.Run(fmt.Sprintf("%s/%s/warm %v, with a parent", name, policy, warm), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { seldom(t, outage, policy, warm, true) })
				})
			}
		}
	}
}

func seldom(t *testing.T, outage memdynamo.Hook, policy Policy, warm, cascades bool) {
	w, l := newProcess(t, Options{Timeout: 2 * time.Second, OnUnavailable: policy, LocalShare: 50})
	w.configure(l, "", "", PerHour("rph", 1000))
	req, levels := stored(Costs{"rph": 1}), 1
	if cascades {
		w.entity(l, acme, "org")
		w.entity(l, "org", "")
		levels = 2
	}
	if warm {
		must(t, l, req)
	}
	used := w.used(l, "rph")
	defer time.Sleep(l.opts.Timeout) // hanging calls end
	w.db.SetHook(outage)
	for i := range 20 {
		w.db.ResetStats()
		begin := time.Now()
		lease, err := l.Acquire(t.Context(), req)
		took := time.Since(begin)
		if granted := policy == PolicyAllow || policy == PolicyLocal && warm; granted != (err == nil) ||
			granted && lease.Charged() {
			t.Fatalf("call %d: %v, %v", i, lease, err)
		}
		if n := w.db.Stats().Calls(); n > levels*(1+desk.ThrottleRetries) {
			t.Errorf("call %d: %d calls", i, n)
		}
		if i >= desk.BreaksAfter && took > desk.ProbeWait {
			t.Errorf("call %d took %s", i, took)
		}
		time.Sleep(time.Second)
		w.advance(time.Second)
	}
	w.db.SetHook(nil)
	if got := w.used(l, "rph"); got != used {
		t.Errorf("%d taken in the outage", got-used)
	}
	recovers := 1
	if !warm {
		recovers = 3 // a read that hangs is shared until Options.Timeout
	}
	for ; ; recovers-- {
		lease, err := l.Acquire(t.Context(), req)
		if err == nil && lease.Charged() {
			break
		}
		if recovers == 1 {
			t.Fatalf("the table answers, and nothing was charged: %v, %v", lease, err)
		}
		time.Sleep(time.Second)
	}
}

// breaks breaks the table for enough requests to open the breaker.
func (w *world) breaks(l *Limiter, req Request, trouble memdynamo.Hook) {
	w.db.SetHook(trouble)
	for range desk.BreaksAfter {
		l.Acquire(w.t.Context(), req)
	}
}

// The same with all callers at once and unanswered probes: while one probe is under way, the others
// send none.
func TestOneOfManyAtOnceProbes(t *testing.T) {
	inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rpm": 1}, rpm10)
		must(t, l, req)
		var calls atomic.Int64
		w.breaks(l, req, func(op memdynamo.Op) (bool, error) { calls.Add(1); return outages["hung"](op) })
		time.Sleep(time.Minute) // all calls have ended
		for range 4 {
			calls.Store(0)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					check.Is(t, check.Err(l.Acquire(t.Context(), req)), ErrUnavailable)
				})
			}
			all.Wait()
			check.Equal(t, calls.Load(), 1, "calls that went out, of 50")
			time.Sleep(desk.ProbesEvery)
		}
		time.Sleep(l.opts.Timeout) // hanging calls end
	})
}

// A throttled write is sent again three times, after growing pauses, and each throttle is reported.
// A throttle that passes costs nothing else.
func TestThrottledWritesAreSentAgain(t *testing.T) {
	for throttled := range 6 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var told atomic.Int64
			l := w.process(Options{Timeout: 2 * time.Second, Observe: only(EventThrottled, func(e Event) {
				if told.Add(1); e.Entity != acme || e.Resource != gpt || e.Err == nil {
					t.Errorf("reported %+v", e)
				}
			})})
			req := asks(Costs{"rpm": 1}, rpm10)
			must(t, l, req)
			left := atomic.Int64{}
			left.Store(int64(throttled))
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				if left.Add(-1) >= 0 {
					return false, memdynamo.Fail(store.Throttled)
				}
				return true, nil
			})
			w.db.ResetStats()
			longestPauses(t)
			begin := time.Now()
			_, err := l.Acquire(t.Context(), req)
			passes := throttled <= desk.ThrottleRetries
			if passes != (err == nil) || err != nil && !errors.Is(err, ErrUnavailable) {
				t.Errorf("%d times throttled: %v", throttled, err)
			}
			pauses := []time.Duration{0, 1, 3, 7} // 25, 50 and 100 ms
			d := time.Since(begin).Round(time.Millisecond)
			want := pauses[min(throttled, desk.ThrottleRetries)] * desk.ThrottlePause
			check.Equal(t, d, want, "%d times throttled: took", throttled)
			check.Equal(t, w.db.Stats().Calls(), min(throttled, desk.ThrottleRetries)+1,
				"%d times throttled: calls", throttled)
			check.Equal(t, int(told.Load()), min(throttled, desk.ThrottleRetries+1),
				"%d times throttled: told times", throttled)
		})
	}
}

// A process that starts behind a table that throttles reads knows neither its limits nor whether
// the bucket exists. Every read is reported. Each of the first calls sends one, which the store
// repeats a few times, and writes nothing. Then the bucket's breaker opens: one caller per second
// waits, at most for a probe. When the table answers again, the next call is charged.
func TestThrottledReadsOfAColdProcess(t *testing.T) {
	for name, req := range map[string]Request{
		"configuration": stored(Costs{"rpm": 1}), "buckets": asks(Costs{"rpm": 1}, rpm10),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var told atomic.Int64
				l := w.process(Options{Timeout: 2 * time.Second, Observe: only(EventThrottled, func(e Event) {
					if told.Add(1); e.Err == nil || e.Entity != "" && e.Entity != acme {
						t.Errorf("reported %+v", e)
					}
				})})
				w.configure(l, "", "", rpm10)
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					if isWrite(op) {
						return true, nil
					}
					time.Sleep(time.Second) // while the store repeats it
					return false, memdynamo.Fail(store.Throttled)
				})
				for i := range 2 * desk.BreaksAfter {
					w.db.ResetStats()
					told.Store(0)
					begin := time.Now()
					check.Is(t, check.Err(l.Acquire(t.Context(), req)), ErrUnavailable,
						"call %d, want unavailable", i)
					if took := time.Since(begin); i >= desk.BreaksAfter && took > desk.ProbeWait {
						t.Errorf("call %d took %s", i, took)
					}
					time.Sleep(2 * time.Second) // a probe ends
					w.advance(2 * time.Second)
					if n := w.db.Stats().Reads; n != 1 || told.Load() != 1 || w.shards(l, acme, gpt) != nil {
						t.Errorf("call %d: %d reads, %d reported, shards %v; want one, one and none", i, n, told.Load(),
							w.shards(l, acme, gpt))
					}
				}
				w.db.SetHook(nil)
				must(t, l, req)
			})
		})
	}
}

// Only silence and lasting throttles open the breaker. A throttle opens that bucket's breaker, and
// the breaker of all buckets only if several are throttled.
func TestSilenceAndThrottlesOpenTheBreaker(t *testing.T) {
	type opened struct{ all, bucket bool }
	for kind, opens := range map[store.Kind]opened{
		store.Unknown: {all: true}, store.Unavailable: {all: true}, store.Throttled: {bucket: true},
		store.Conflict: {}, store.Setup: {},
	} {
		inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(kind) })
			for range 2 * desk.BreaksAfter {
				l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
			}
			all := l.desks.Breaker.Open()
			own := l.desks.Of(acmeGPT).Throttled.Open()
			check.Equal(t, (opened{all, own}), opens, "%s: open", kind)
			if kind != store.Throttled {
				return
			}
			w.db.SetHook(func(op memdynamo.Op) (bool, error) { // reads are served
				if isWrite(op) {
					return false, memdynamo.Fail(kind)
				}
				return true, nil
			})
			for i := range desk.BreaksAfter {
				l.Acquire(t.Context(), Request{Entity: fmt.Sprint("tenant-", i), Resource: gpt, Costs: Costs{"rpm": 1},
					Limits: []Limit{rpm10}})
			}
			if all := l.desks.Breaker.Open(); !all {
				t.Error("several buckets are throttled, and the breaker is closed")
			}
		})
	}
}

// The table has answered if a call was answered. A denial after a call counts; a denial without
// one, a prefetched grant and an invalid request do not.
func TestAnsweredCallsCountAsAnswers(t *testing.T) {
	opts := Options{Timeout: 2 * time.Second, Ahead: 500 * time.Millisecond}
	inBubble(t, opts, func(t *testing.T, w *world, l *Limiter) {
		held, full := asks(Costs{"rps": 1}, rps1000), asks(Costs{"rpm": 10}, rpm10)
		full.Resource = "full"
		orphan := asks(Costs{"rpm": 1}, rpm10)
		orphan.Entity = "orphan"
		w.entity(l, orphan.Entity, "nobody")
		free := stored(Costs{"rpm": 1})
		free.Entity = "free"
		w.says(l, free.Entity, gpt, "disabled", item.S("bypass"))
		for range 2 { // it is read, and then cached
			check.MustBe(t, check.Err(l.Acquire(t.Context(), orphan)), ErrInvalid)
		}
		w.busy(l, held, 100)
		must(t, l, full)
		must(t, l, free)
		check.MustBe(t, check.Err(l.Acquire(t.Context(), full)), ErrLimited)
		for _, c := range []struct {
			name     string
			ask      func() error
			answered bool
		}{
			{"a denial without a call", func() error { _, err := l.Acquire(t.Context(), full); return err }, false},
			{"a request that is no use", func() error {
				_, err := l.Acquire(t.Context(), asks(Costs{"other": 1}, rps1000))
				return err
			}, false},
			{"limits that are known not to be there", func() error {
				req := held
				req.Limits = nil
				_, err := l.Acquire(t.Context(), req)
				return err
			}, false},
			{"a parent that is known not to be there", func() error {
				_, err := l.Acquire(t.Context(), orphan)
				return err
			}, false},
			{"a grant of one that is bypassed", func() error { _, err := l.Acquire(t.Context(), free); return err }, false},
			{"a grant from what is held", func() error { _, err := l.Acquire(t.Context(), held); return err }, false},
			{"one with configuration that is read", func() error {
				l.ForgetConfig()
				_, err := l.Acquire(t.Context(), held)
				return err
			}, false},
			{"a denial that has looked", func() error {
				w.advance(time.Second)
				_, err := l.Acquire(t.Context(), full)
				return err
			}, true},
		} {
			l.desks.Heard(t.Context(), acmeGPT, acmeGPT, nil)
			for range desk.BreaksAfter - 1 {
				l.desks.Heard(t.Context(), acmeGPT, acmeGPT, &store.Failure{Kind: store.Unknown})
			}
			w.db.ResetStats()
			err := c.ask()
			if got := l.desks.Breaker.Silent == 0; got != c.answered || (w.db.Stats().WriteUnits > 0) != c.answered {
				t.Errorf("%s: an answer %v, %v, with %+v", c.name, got, err, w.db.Stats())
			}
		}
	})
}

// An unanswered read of a parent's configuration opens the breaker like the child's.
func TestUnansweredParentsOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := family(t, 100, Options{Timeout: 2 * time.Second})
		must(t, l, asks(Costs{"rpm": 1}, rpm10))
		w.entity(l, "child", "parent")
		req := Request{Entity: "child", Resource: gpt, Costs: Costs{"rpm": 1}}
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			for _, k := range op.Keys {
				if strings.Contains(k.PK, "parent") {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
			return true, nil
		})
		for range desk.BreaksAfter {
			if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrUnavailable) ||
				!strings.Contains(err.Error(), `acquire "parent/gpt-4"`) {
				t.Errorf("%v, want unavailable by the parent", err)
			}
		}
		if !l.desks.Breaker.Open() {
			t.Error("the breaker is closed")
		}
	})
}

// A lease from before the outage is settled by its caller's call; the breaker does not stop it.
func TestLeasesAreSettledWhileTheBreakerIsOpen(t *testing.T) {
	inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rpm": 1}, rpm10)
		lease := must(t, l, req)
		w.breaks(l, req, outages["down"])
		check.MustBe(t, lease.Rollback(t.Context()), ErrUnavailable)
		w.db.SetHook(nil)
		if err := lease.Rollback(t.Context()); err != nil || w.used(l, "rpm") != 0 {
			t.Errorf("rollback when the table answers: %v, %d used", err, w.used(l, "rpm"))
		}
	})
}

// A client that panics in a probe counts as no answer: no request is let through, and the next
// answered probe closes the breaker.
func TestAProbeThatPanics(t *testing.T) {
	inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rpm": 1}, rpm10)
		must(t, l, req)
		w.breaks(l, req, outages["lost"])
		w.db.SetHook(func(memdynamo.Op) (bool, error) { panic("planned") })
		for range 3 {
			time.Sleep(desk.ProbesEvery)
			check.Is(t, check.Err(l.Acquire(t.Context(), req)), ErrUnavailable)
			if !l.desks.Breaker.Open() {
				t.Error("a panic is an answer")
			}
		}
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		must(t, l, req)
	})
}
