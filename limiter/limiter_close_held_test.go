package limiter

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// atOnce is how much a process is granted at one instant.
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

// What a process held of a rate and nobody was granted does not come back on top of a full bucket: not for a
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
			fine(t, a.Close(t.Context()))
			w.pass(time.Hour)
			if got := atOnce(b, c.is); got > c.is.Capacity {
				t.Errorf("%s: %d are granted at one instant of a capacity of %d", name, got, c.is.Capacity)
			}
		})
	}
}

// hung has a call of the process for another bucket hang until its timeout.
func (w *world) hung(l *Limiter) {
	w.db.SetHook(onCall(isWrite, 0, func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil }))
	other := asks(Costs{"rpm": 1}, rpm10)
	other.Entity = "other"
	go func() { _, _ = l.Acquire(context.Background(), other) }()
	synctest.Wait()
}

// Also a Close that could not wait for all ends everything: nothing is granted from what is held, and the slots
// of open leases are renewed no more, so they are free after two epochs.
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
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the call goes on", err)
		}
		if _, err := l.Acquire(t.Context(), one); !errors.Is(err, ErrClosed) {
			t.Errorf("from what is held: %v, want ErrClosed", err)
		}
		for range 600 {
			w.pass(time.Second)
		}
		if _, err := w.process(Options{}).Acquire(t.Context(), job); err != nil {
			t.Errorf("the slot, ten epochs later: %v", err)
		}
	})
}

// A panic of the observer is an error of the bucket, and the others are written all the same.
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
		if err := l.Close(t.Context()); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v, want ErrUnknown", err)
		}
	})
}

// A quota that was reset meanwhile gets nothing back: what was held of it was never used. The rest is written
// as ever.
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
		fine(t, l.Close(t.Context()))
		if n := w.db.Stats().WriteUnits; n != 2 {
			t.Errorf("%v writes, want one that is refused and one", n)
		}
		for _, limit := range []string{"rps", "rpd"} {
			sl := w.slot(l, limit)
			if used := (sl.Used - sl.Ended) / 1000; used != granted {
				t.Errorf("%s: %d are used, %d granted", limit, used, granted)
			}
			w.letsGo(l, limit, granted)
		}
	})
}

// Calls at every instant around Close: what is used at the end is what was granted, and no slot leaks.
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
				report(t, l.Close(context.Background()))
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
