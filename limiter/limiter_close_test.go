package limiter

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// closes returns a limiter that holds tokens of a rate and of a quota, and an idle slot.
func (w *world) closes(opts Options) (*Limiter, Request, int64) {
	w.t.Helper()
	opts.Ahead = 500 * time.Millisecond
	l := w.process(opts)
	req := asks(Costs{"rps": 1, "rpd": 1, "jobs": 1}, PerSecond("rps", 1000), Quota("rpd", 100_000, Daily("")),
		InFlight("jobs", 100, 10*time.Minute))
	granted := int64(0)
	for range 1000 {
		must(w.t, l, req).Commit(w.t.Context())
		granted++
		w.pass(time.Millisecond)
	}
	return l, req, granted
}

// slot returns a limit of the bucket's only shard, at now.
func (w *world) slot(l *Limiter, limit string) bucket.Slot {
	s := w.shards(l, acme, gpt)[0].State.At(w.now.Load())
	return s.Slots[s.Index(limit)]
}

// letsGo requires that only granted tokens are held of a limit. They were held until then, and
// count as held until their time is over, half a second after the last write.
func (w *world) letsGo(l *Limiter, limit string, granted int64) {
	w.t.Helper()
	held, until := w.slot(l, limit).Held/1000, w.shards(l, acme, gpt)[0].State.HeldUntil
	if held > granted || until > w.now.Load()+600 {
		w.t.Errorf("%s: the item says that %d may be held until %d, %d were granted", limit, held, until, granted)
	}
}

// When a process ends, its held tokens are available to others: a thousand requests use prefetched
// tokens of a rate and a quota, and slots, and afterwards only their costs are used. Tokens of the
// rate refill. All this takes one write.
func TestCloseGivesEverythingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, req, granted := w.closes(Options{})
		k := l.desks.Of(acmeGPT)
		if rate, quota := k.Left(0, "rps", l.desks.Moment), k.Left(0, "rpd", l.desks.Moment); rate == 0 || quota == 0 {
			t.Fatalf("it holds %d of the rate and %d of the quota", rate, quota)
		}
		w.db.ResetStats()
		check.Must(t, l.Close(t.Context()))
		check.Equal(t, w.db.Stats().WriteUnits, 1, "write units")
		after := w.slot(l, "rps")
		check.Equal(t, (after.Used-after.Ended)/1000, granted, "the rate are used")
		w.letsGo(l, "rps", granted)
		if sl := w.slot(l, "rpd"); sl.Tokens/1000 != 100_000-granted || sl.Used/1000 != granted {
			t.Errorf("%d of 100,000 were granted of the quota: %+v", granted, sl)
		}
		if sl := w.slot(l, "jobs"); sl.Taken != (bucket.Taken{}) && sl.Taken.Of(sl.Epoch())+sl.Taken.Of(sl.Epoch()-1) != 0 {
			t.Errorf("slots are taken: %+v", sl)
		}
		must(t, w.process(Options{}), req).Rollback(t.Context())
		w.db.ResetStats()
		time.Sleep(time.Hour) // no timer is left that writes
		w.pass(time.Hour)
		check.Equal(t, w.db.Stats().Calls(), 0, "calls after Close")
	})
}

// After Close every call returns ErrClosed and writes nothing, and no policy grants a lease.
func TestClosed(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyAllow, Ahead: time.Second})
	req := asks(Costs{"rpm": 1}, rpm10)
	open, ended := must(t, l, req), must(t, l, req)
	check.Must(t, ended.Rollback(t.Context()))
	check.Must(t, open.Settle(Costs{"rpm": 3}))
	for range 2 {
		check.Must(t, l.Close(t.Context()))
	}
	before := w.db.Snapshot()
	w.db.ResetStats()
	for name, call := range map[string]func() error{
		"Acquire":  func() error { _, err := l.Acquire(t.Context(), req); return err },
		"Wait":     func() error { _, err := l.Wait(t.Context(), req); return err },
		"Reserve":  func() error { _, _, err := l.Reserve(t.Context(), req); return err },
		"Allow":    func() error { return l.Allow(t.Context(), acme, rpm10) },
		"Do":       func() error { return l.Do(t.Context(), req, nil) },
		"Charge":   func() error { return open.Charge(t.Context(), Costs{"rpm": 1}) },
		"Commit":   func() error { return open.Commit(t.Context()) },
		"Rollback": func() error { return open.Rollback(t.Context()) },
	} {
		if err := call(); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, want ErrClosed and ErrUnavailable", name, err)
		}
	}
	check.NoError(t, ended.Rollback(t.Context()), "a lease that has ended")
	check.Equal(t, w.db.Stats().Calls(), 0, "calls")
	w.sameTable(before)
}

// A request in line, while others use up the queue, ends immediately.
func TestCloseEndsLines(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, other := process(), process()
		for _, n := range []int64{10, 10, 5} {
			reserved(t, other, asks(Costs{"rpm": n}, rpm10))
		}
		got := make(chan error, 1)
		go func() {
			_, err := l.Wait(context.Background(), asks(Costs{"rpm": 5}, rpm10))
			got <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.NoError(t, l.Close(ctx))
		check.MustBe(t, <-got, ErrClosed)
	})
}

// Requests that sleep in Wait, in the queue or in line, give back their tokens.
func TestCloseEndsWaits(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, other := process(), process()
		must(t, other, asks(Costs{"rpm": 10}, rpm10))
		errs := make(chan error, 3)
		for _, n := range []int64{2, 8, 5} { // the third stands in line
			go func() {
				_, err := l.Wait(context.Background(), asks(Costs{"rpm": n}, rpm10))
				errs <- err
			}()
			time.Sleep(time.Second)
		}
		check.Must(t, l.Close(t.Context()))
		for range 3 {
			if err := <-errs; !errors.Is(err, ErrClosed) || errors.Is(err, ErrCanceled) {
				t.Errorf("%v, want ErrClosed", err)
			}
		}
		check.Equal(t, w.used(other, "rpm"), 10, "used")
	})
}

// Close waits for calls under way, no longer than its context allows.
func TestCloseWaitsForCalls(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		inBubble(t, Options{Timeout: time.Minute}, func(t *testing.T, w *world, l *Limiter) {
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			w.db.SetHook(onCall(isWrite, 0, func(op memdynamo.Op) (bool, error) {
				if hangs {
					<-op.Done
				}
				time.Sleep(time.Second)
				return true, nil
			}))
			got := make(chan error, 1)
			go func() { _, err := l.Acquire(context.Background(), asks(Costs{"rpm": 1}, rpm10)); got <- err }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := l.Close(ctx)
			if hangs != errors.Is(err, ErrCanceled) || hangs != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("hangs %v: %v", hangs, err)
			}
			if err := <-got; hangs != errors.Is(err, ErrUnknown) {
				t.Errorf("hangs %v: the call: %v", hangs, err)
			}
			l.desks.Wait()
		})
	}
}

// The write of Close meets every fault: tokens that may not have been given back are reported, and
// nothing is ever given back twice.
func TestCloseUnderFaults(t *testing.T) {
	fails := func(applied bool, kind store.Kind) func(memdynamo.Op) (bool, error) {
		return func(memdynamo.Op) (bool, error) { return applied, memdynamo.Fail(kind) }
	}
	for name, c := range map[string]struct {
		hook func(memdynamo.Op) (bool, error)
		want error
		back bool
	}{
		"throttled once":           {fails(false, store.Throttled), nil, true},
		"applied, answer lost":     {fails(true, store.Unknown), ErrUnknown, true},
		"not applied, answer lost": {fails(false, store.Unknown), ErrUnknown, false},
		"not allowed":              {fails(false, store.Setup), ErrSetup, false},
		"panic":                    {func(memdynamo.Op) (bool, error) { panic("client") }, ErrUnknown, false},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex
			var last Event
			l, _, granted := w.closes(Options{Observe: func(_ context.Context, e Event) {
				mu.Lock()
				defer mu.Unlock()
				last = e
			}})
			synctest.Wait()
			w.db.SetHook(onCall(isWrite, 0, c.hook))
			err := l.Close(t.Context())
			check.Is(t, err, c.want)
			if _, ok := errors.AsType[*SettleError](err); ok != (c.want != nil) {
				t.Errorf("%v: is it a *SettleError: %v", err, ok)
			}
			if used := w.slot(l, "rpd").Used / 1000; (used == granted) != c.back || used < granted {
				t.Errorf("%d of the quota are used, %d were granted", used, granted)
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if last.Kind != EventAhead || (last.Err == nil) != (c.want == nil) || (len(last.Ended) > 0) != (c.want == nil) {
				t.Errorf("reported %+v", last)
			}
		}))
	}
}

// Others have changed the limits since: the process's declaration no longer counts, and the rest is
// given back.
func TestCloseInAnotherGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, req, granted := w.closes(Options{})
		req.Limits[0] = PerSecond("rps", 2000)
		other := w.process(Options{Ahead: 500 * time.Millisecond})
		for range 100 {
			must(t, other, req).Commit(t.Context())
			granted++
			w.pass(time.Millisecond)
		}
		holds := w.slot(l, "rps").Held
		if holds == 0 {
			t.Fatal("the other one holds nothing")
		}
		check.Must(t, l.Close(t.Context()))
		check.Equal(t, w.slot(l, "rps").Held, holds, "the item says that may be held: the other one holds it")
		check.Must(t, other.Close(t.Context()))
		if sl := w.slot(l, "rpd"); sl.Used/1000 != granted || sl.Tokens/1000 != 100_000-granted {
			t.Errorf("%d of 100,000 were granted of the quota: %+v", granted, sl)
		}
		if sl := w.slot(l, "rps"); (sl.Used-sl.Ended)/1000 != granted {
			t.Errorf("%d were granted of the rate: %+v", granted, sl)
		}
	})
}

// atOnce returns how much a process is granted at one instant.
func atOnce(l *Limiter, limit Limit) (got int64) {
	for n := limit.Capacity; n > 0; n /= 2 {
		for {
			if _, err := l.Acquire(context.Background(), asks(Costs{limit.Name: n}, limit)); err != nil {
				break
			}
			got += n
		}
	}
	return got
}

// Held tokens of a rate that were never granted are not added to a full bucket: neither for a
// process whose image is older than Close, nor under a limit that was lowered since.
func TestCloseMintsNothing(t *testing.T) {
	for name, c := range map[string]struct{ was, is Limit }{
		"an old image":  {PerSecond("rps", 1000), PerSecond("rps", 1000)},
		"lowered since": {PerMinute("rps", 6000), PerMinute("rps", 20)},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.process(Options{Ahead: 500 * time.Millisecond}), w.process(Options{})
			for range 300 {
				must(t, a, asks(Costs{"rps": 1}, c.was))
				w.pass(2 * time.Millisecond)
			}
			if a.desks.Of(acmeGPT).Left(0, "rps", a.desks.Moment) == 0 {
				t.Fatal("nothing is held")
			}
			_, _ = b.Acquire(t.Context(), asks(Costs{"rps": 1}, c.is))
			check.Must(t, a.Close(t.Context()))
			w.pass(time.Hour)
			if got := atOnce(b, c.is); got > c.is.Capacity {
				t.Errorf("%s: %d are granted at one instant of a capacity of %d", name, got, c.is.Capacity)
			}
		})
	}
}

// hung makes a call of the process for another bucket hang until its timeout.
func (w *world) hung(l *Limiter) {
	w.db.SetHook(onCall(isWrite, 0, func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil }))
	other := asks(Costs{"rpm": 1}, rpm10)
	other.Entity = "other"
	go func() { _, _ = l.Acquire(context.Background(), other) }()
	synctest.Wait()
}

// Even a Close that could not wait for everything ends the limiter: held tokens are not granted,
// and the slots of open leases are no longer renewed, so they are free after two epochs.
func TestCloseThatIsCutShort(t *testing.T) {
	inBubble(t, Options{Ahead: 10 * time.Second, Timeout: time.Minute}, func(t *testing.T, w *world, l *Limiter) {
		job, one := asks(Costs{"jobs": 1}, InFlight("jobs", 1, time.Minute)), asks(Costs{"rps": 1}, PerSecond("rps", 100))
		one.Entity = "busy"
		for range 300 {
			must(t, l, one)
			w.pass(10 * time.Millisecond)
		}
		must(t, l, job)
		w.hung(l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.MustBe(t, l.Close(ctx), context.DeadlineExceeded)
		check.Is(t, check.Err(l.Acquire(t.Context(), one)), ErrClosed, "from held tokens")
		for range 600 {
			w.pass(time.Second)
		}
		check.NoError(t, check.Err(w.process(Options{}).Acquire(t.Context(), job)), "the slot, ten epochs later")
	})
}

// A panic of the observer is an error of that bucket, and the others are still written.
func TestCloseWithAnObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		closing := false
		l, _, _ := w.closes(Options{Observe: func(context.Context, Event) {
			if closing {
				panic("observer")
			}
		}})
		synctest.Wait()
		closing = true
		check.MustBe(t, l.Close(t.Context()), ErrUnknown)
	})
}

// A quota that was reset meanwhile gets nothing back: its held tokens were never used. The rest is
// written as usual.
func TestCloseGivesNothingBackToAResetQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, _, granted := w.closes(Options{})
		for _, it := range w.db.Items() {
			if b, err := table.DecodeShard(it); err == nil && b.Entity == acme {
				it = maps.Clone(it)
				it["b_rpd_rn"] = item.N(1)
				w.db.Store(it)
			}
		}
		w.db.ResetStats()
		check.Must(t, l.Close(t.Context()))
		check.Equal(t, w.db.Stats().WriteUnits, 2, "writes, want one that is refused and one")
		for _, limit := range []string{"rps", "rpd"} {
			sl := w.slot(l, limit)
			if used := (sl.Used - sl.Ended) / 1000; used != granted {
				t.Errorf("%s: %d are used, %d granted", limit, used, granted)
			}
			w.letsGo(l, limit, granted)
		}
	})
}

// Calls at every instant around Close: in the end the usage equals the grants, and no slot leaks.
func TestCallsAroundClose(t *testing.T) {
	for range 20 {
		inBubble(t, Options{Ahead: 500 * time.Millisecond, Timeout: time.Minute}, func(t *testing.T, w *world, l *Limiter) {
			req := asks(Costs{"rpd": 1, "jobs": 1}, Quota("rpd", 1_000_000, Daily("")), InFlight("jobs", 1000, 10*time.Minute))
			granted, open := 0, 0
			for range 300 {
				must(t, l, req).Commit(t.Context())
				granted++
				w.pass(time.Millisecond)
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			for range 8 {
				all.Go(func() {
					for range 100 {
						lease, err := l.Acquire(context.Background(), req)
						if errors.Is(err, ErrClosed) {
							return
						}
						if err != nil {
							continue
						}
						failed := lease.Commit(context.Background()) != nil
						mu.Lock()
						if granted++; failed {
							open++
						}
						mu.Unlock()
					}
				})
			}
			all.Go(func() {
				check.NoError(t, l.Close(context.Background()))
			})
			all.Wait()
			if sl := w.slot(l, "rpd"); int((sl.Used-sl.Ended)/1000) != granted {
				t.Errorf("%d are used, %d were granted", (sl.Used-sl.Ended)/1000, granted)
			}
			j := w.slot(l, "jobs")
			if taken := (j.Taken.Of(j.Epoch()) + j.Taken.Of(j.Epoch()-1)) / 1000; int(taken) > open {
				t.Errorf("%d slots are taken, %d leases are open", taken, open)
			}
		})
	}
}
