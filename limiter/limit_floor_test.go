package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// of returns a request of a class.
func (r Request) of(class string) Request {
	r.Class = class
	return r
}

func TestAClassLeavesItsFloor(t *testing.T) {
	limits := map[string]Limit{
		"rate": PerMinute("x", 100), "quota": Quota("x", 100, Daily("")), "in flight": InFlight("x", 100, time.Minute),
	}
	for name, limit := range limits {
		for _, shards := range []int{1, 4} {
			if limit.InFlight && shards > 1 {
				continue
			}
			t.Run(fmt.Sprint(name, ", shards: ", shards), func(t *testing.T) {
				w := newWorld(t)
				l, other := w.process(Options{}), w.process(Options{})
				w.configure(l, "", gpt, limit.WithFloor("batch", 40).WithFloor("free", 60), PerMinute("rpm", 1000))
				req := asks(Costs{"x": 1, "rpm": 1})
				must(t, l, asks(Costs{"x": 4, "rpm": 4})) // so shards hold whole tokens
				w.split(l, shards)
				taken := int64(4)
				for _, c := range []struct {
					class string
					until int64
				}{{"free", 40}, {"batch", 60}, {"", 100}} {
					for _, who := range []*Limiter{l, other} {
						taken += int64(drain(t, who, req.of(c.class)))
					}
					check.MustEqual(t, taken, c.until, "class %q: taken", c.class)
				}
			})
		}
	}
}

func TestRetryAfterOfAClass(t *testing.T) {
	w, l := newProcess(t, Options{})
	limit := PerMinute("rpm", 60).WithFloor("batch", 50)
	req := asks(Costs{"rpm": 1}, limit)
	wantGranted(t, l, req.of("batch"), 30)
	must(t, l, asks(Costs{"rpm": 10}, limit)) // a known denial of a class denies no other
	e := deniedBy(t, l, req.of("batch"))
	if s := e.Statuses[0]; e.RetryAfter != 11*time.Second || e.Remaining != 0 || s.Floor != 30 || s.Remaining != 0 ||
		s.RefillAfter != 11*time.Second || s.ResetAfter != 40*time.Second {
		t.Fatalf("retry after %s, %+v", e.RetryAfter, s)
	}
	if e := deniedBy(t, l, asks(Costs{"rpm": 21}, limit)); e.RetryAfter != time.Second || e.Remaining != 20 {
		t.Errorf("without a class: %v", e)
	}
	w.advance(e.RetryAfter - time.Millisecond)
	deniedBy(t, l, req.of("batch"))
	w.advance(time.Millisecond)
	must(t, l, req.of("batch"))
	must(t, l, asks(Costs{"rpm": 0}, limit).of("batch")) // takes nothing
	if s := must(t, l, asks(Costs{"rpm": 1}, limit)).Status()[0]; s.Floor != 0 || s.Remaining != 29 {
		t.Errorf("%+v", s)
	}
}

func TestWaitLeavesAFloor(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		limit := PerSecond("rps", 10).WithFloor("batch", 50)
		must(t, l, asks(Costs{"rps": 5}, limit))
		begin := time.Now()
		var low, high sync.WaitGroup
		for range 3 {
			low.Go(func() {
				waits(t, l, asks(Costs{"rps": 2}, limit).of("batch"))
			})
		}
		time.Sleep(10 * time.Millisecond)
		for range 5 {
			high.Go(func() {
				waits(t, l, asks(Costs{"rps": 1}, limit))
			})
		}
		if high.Wait(); time.Since(begin) > 50*time.Millisecond {
			t.Errorf("who leaves nothing has waited for %s", time.Since(begin))
		}
		if low.Wait(); time.Since(begin) < time.Second {
			t.Errorf("all had their tokens after %s", time.Since(begin))
		}
		if _, after, err := l.Reserve(t.Context(), asks(Costs{"rps": 4}, limit).of("batch")); !errors.Is(err, ErrQueueFull) {
			t.Errorf("reserved for in %s: %v", after, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		check.Is(t, check.Err(l.Wait(ctx, asks(Costs{"rps": 5}, limit).of("batch"))), ErrLimited, "too late")
	})
}

func TestPrefetchedTokensAreNotForClassesWithAFloor(t *testing.T) {
	w, l := newProcess(t, Options{Ahead: time.Second})
	limit := PerMinute("rpm", 6000).WithFloor("batch", 50)
	req := asks(Costs{"rpm": 10}, limit)
	if n, last := w.busy(l, req, 101); n != 101 || !last.ahead {
		t.Fatalf("%d granted, from what is held: %t", n, last.ahead)
	}
	lease := must(t, l, req.of("batch"))
	if lease.ahead {
		t.Error("granted from what is held")
	}
	before := w.db.Stats().Calls()
	if !must(t, l, req).ahead {
		t.Error("nothing is held any more")
	}
	if n := w.db.Stats().Calls(); n != before {
		t.Errorf("%d writes", n-before)
	}
	if n := drain(t, l, req.of("batch")); n == 0 || n > 300 {
		t.Errorf("%d granted", n)
	}
	must(t, l, req)
}

func TestFloorsOfLocalShares(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 10})
	req := asks(Costs{"rpm": 1}, PerMinute("rpm", 100).WithFloor("batch", 50))
	w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
	wantGranted(t, l, req.of("batch"), 5)
	e := deniedBy(t, l, req.of("batch"))
	if e.Statuses[0].Floor != 5 || e.Remaining != 0 || e.RetryAfter != 6*time.Second {
		t.Errorf("%+v", e)
	}
	wantGranted(t, l, req, 5)
}

// The low class asks for five times of what the limit refills, in the same process and in
// another; the high one for a fifth of it, and for its floor at once now and then.
func TestAHighClassIsNotDeniedUnderOverload(t *testing.T) {
	const length, burst = 20 * time.Second, 16
	limit := PerSecond("rps", 100).WithFloor("batch", 40)
	for _, alone := range []bool{false, true} {
		inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
			high, end := process(), time.Now().Add(length)
			must(t, high, asks(Costs{"rps": 0}, limit))
			var mu sync.Mutex
			var lows, asked int64
			var all sync.WaitGroup
			for i, l := range []*Limiter{high, process()} {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					for time.Now().Before(end) {
						all.Go(func() {
							_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1}, limit).of("batch"))
							mu.Lock()
							defer mu.Unlock()
							if err == nil {
								lows++
							} else if !errors.Is(err, ErrLimited) {
								t.Error(err)
							}
						})
						time.Sleep(4 * time.Millisecond)
					}
				})
			}
			for i := 1; time.Now().Before(end) && !alone; i++ {
				n := int64(1)
				if i%100 == 0 {
					n = burst
				}
				for range n {
					if _, err := high.Acquire(t.Context(), asks(Costs{"rps": 1}, limit)); err != nil {
						t.Errorf("the high class is denied after %s: %v", length-time.Until(end), err)
					}
					asked++
				}
				time.Sleep(50 * time.Millisecond)
			}
			all.Wait()
			rest := 60 + 100*int64(length/time.Second) - asked
			t.Logf("the low class got %d of %d that the high one left: %.1f %%", lows, rest, 100*float64(lows)/float64(rest))
			if lows*100 < rest*98 || lows > rest+1 {
				t.Errorf("the low class got %d of %d", lows, rest)
			}
		})
	}
}

// A class takes nearly all that it may at once, in another process, so a request of that class
// finds too little. It says nothing of the 410 of 1000 that are left to those who leave nothing.
func TestABurstOfALowClassDeniesNoHighOne(t *testing.T) {
	limit := PerMinute("rpm", 1000).WithFloor("batch", 40).WithFloor("free", 50)
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, other := process(), process()
		must(t, l, asks(Costs{"rpm": 1}, limit))
		must(t, other, asks(Costs{"rpm": 490}, limit).of("free"))
		time.Sleep(50 * time.Millisecond)
		must(t, other, asks(Costs{"rpm": 98}, limit).of("batch"))
		for _, c := range []struct {
			class string
			cost  int64
		}{{"free", 10}, {"batch", 100}} {
			deniedBy(t, l, asks(Costs{"rpm": c.cost}, limit).of(c.class))
		}
		for range 5 {
			time.Sleep(60 * time.Millisecond)
			must(t, l, asks(Costs{"rpm": 1}, limit))
		}
	})
}

// What is above a floor bounds a request of its class, but a soft limit leaves nothing to others.
func TestMoreThanAFloorLeaves(t *testing.T) {
	_, l := newProcess(t, Options{})
	limit := PerMinute("rpm", 100).WithFloor("batch", 40)
	for cost, says := range map[int64]string{
		61:  `Costs["rpm"] is 61, want at most 60: class "batch" leaves 40 percent of 100 tokens`,
		101: `Costs["rpm"] is 101, want at most the capacity of 100 tokens`,
	} {
		_, err := l.Acquire(t.Context(), asks(Costs{"rpm": cost}, limit).of("batch"))
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrTooLarge that says %s", err, says)
		}
	}
	must(t, l, asks(Costs{"rpm": 60}, limit).of("batch"))
	s := must(t, l, asks(Costs{"rpm": 60}, limit.AsSoft()).of("batch")).Status()[0]
	if s.Floor != 0 || s.Remaining != -20 {
		t.Errorf("a soft limit leaves nothing to others: %+v", s)
	}
}
