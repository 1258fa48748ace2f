package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// far returns a world whose calls take a round trip each and are performed half-way, and a process
// with an image of the full bucket of rph100. Writes are counted, and end as fail decides, if it is
// not nil.
// process that has seen the bucket of rph100 full. Writes are counted, and end as fail
// says, if it is not nil.
func far(t *testing.T, trip time.Duration, opts Options,
	fail func(n int64, op memdynamo.Op) (bool, error)) (*world, *Limiter, *atomic.Int64) {
	w := virtual(t, trip)
	writes := &atomic.Int64{}
	var armed atomic.Bool
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		time.Sleep(trip)
		if !isWrite(op) || !armed.Load() {
			return true, nil
		}
		if n := writes.Add(1); fail != nil {
			return fail(n, op)
		}
		return true, nil
	})
	l := w.started(opts)
	must(t, l, asks(Costs{"rph": 0}, rph100))
	armed.Store(true)
	return w, l, writes
}

// If every write of a request is refused because others are faster, the request is denied after
// three writes and three round trips, under every policy, with a matching error.
func TestDenialTakesThreeWrites(t *testing.T) {
	const trip = 150 * time.Millisecond
	for _, policy := range []Policy{PolicyBlock, PolicyAllow, PolicyLocal} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				opens := 0
				opts := Options{ConfigTTL: time.Hour, Observe: only(EventBreaker, func(Event) { opens++ })}
				w, l, writes := far(t, trip, opts, func(_ int64, op memdynamo.Op) (bool, error) { return false, w.refusedNow(op) })
				req := asks(Costs{"rph": 1}, rph100)
				req.OnUnavailable = policy
				for range 20 {
					begin := time.Now()
					writes.Store(0)
					_, err := l.Acquire(t.Context(), req)
					d, ok := errors.AsType[*LimitError](err)
					if !ok || !d.Estimated || d.RetryAfter <= 0 || errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnavailable) {
						t.Fatalf("got %v, want denied, with an estimate", err)
					}
					if n, took := writes.Load(), time.Since(begin); n != 3 || took != 3*trip {
						t.Fatalf("denied after %d writes and %s, want 3 and %s", n, took, 3*trip)
					}
					time.Sleep(d.RetryAfter)
				}
				if opens > 0 {
					t.Error("the breaker has opened, though every call was answered")
				}
				atRest(t, l)
			})
		})
	}
}

// If the caller would not wait for another write, the refused one denies the request, instead of
// leaving it unknown.
func TestDenialWithinTheDeadline(t *testing.T) {
	const trip = 150 * time.Millisecond
	for _, c := range []struct {
		deadline time.Duration
		writes   int64
	}{{200 * time.Millisecond, 1}, {300 * time.Millisecond, 1}, {400 * time.Millisecond, 2}, {time.Second, 3}} {
		t.Run(c.deadline.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				w, l, writes := far(t, trip, Options{}, func(_ int64, op memdynamo.Op) (bool, error) {
					return false, w.refusedNow(op)
				})
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				_, err := l.Acquire(ctx, asks(Costs{"rph": 1}, rph100))
				if !errors.Is(err, ErrLimited) || errors.Is(err, ErrCanceled) || ctx.Err() != nil {
					t.Errorf("got %v, want denied before the deadline", err)
				}
				check.Equal(t, writes.Load(), c.writes, "writes")
				atRest(t, l)
			})
		})
	}
}

// The last write for which there is time is refused only if the tokens are gone. Of a full bucket
// of 100, others take 40 between two of this process's requests: a charge that may show the level
// 30 % too low is refused, but not the last one.
func TestLastWriteIsRefusedForTokensOnly(t *testing.T) {
	const trip = 150 * time.Millisecond
	for _, c := range []struct {
		deadline time.Duration
		writes   int64
	}{{300 * time.Millisecond, 1}, {2 * time.Second, 2}} {
		synctest.Test(t, func(t *testing.T) {
			w, l, writes := far(t, trip, Options{}, nil)
			must(t, w.started(Options{}), asks(Costs{"rph": 40}, rph100))
			writes.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			check.NoError(t, check.Err(l.Acquire(ctx, asks(Costs{"rph": 1}, rph100))), "with %s", c.deadline)
			check.Equal(t, writes.Load(), c.writes, "with %s: writes", c.deadline)
		})
	}
}

// Faster processes do not deny a waiting request: it goes into debt.
func TestWaitIsNotOutrun(t *testing.T) {
	const trip = 60 * time.Millisecond
	for refused := range int64(8) {
		synctest.Test(t, func(t *testing.T) {
			var w *world
			w, l, writes := far(t, trip, Options{}, func(n int64, op memdynamo.Op) (bool, error) {
				if n <= refused {
					return false, w.refusedNow(op)
				}
				return true, nil
			})
			begin := time.Now()
			check.NoError(t, check.Err(l.Wait(t.Context(), asks(Costs{"rph": 1}, rph100))),
				"refused %d times", refused)
			if took, n := time.Since(begin), writes.Load(); n != refused+1 || took != time.Duration(n)*trip {
				t.Errorf("refused %d times: %d writes in %s", refused, n, took)
			}
			atRest(t, l)
		})
	}
}

// The longer a write takes, the more requests of one process wait for it together: they cost a
// write per round trip, not one every ten milliseconds.
func TestGroupsFollowTheRoundTrip(t *testing.T) {
	for _, trip := range []time.Duration{4, 15, 60, 150} {
		trip *= time.Millisecond
		t.Run(trip.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l, writes := far(t, trip, Options{}, nil)
				const requests = 60
				begin, done := time.Now(), make(chan error, requests)
				for range requests {
					go func() {
						from := time.Now()
						_, err := l.Acquire(t.Context(), asks(Costs{"rph": 1}, rph100))
						if took := time.Since(from); err == nil && took > 2*trip {
							err = fmt.Errorf("granted after %s, want two round trips at most", took)
						}
						done <- err
					}()
					time.Sleep(trip / 20)
				}
				for range requests {
					check.NoError(t, <-done)
				}
				most := int64(time.Since(begin)/trip) + 1
				if n := writes.Load(); n > most {
					t.Errorf("%d writes for %d requests in %s, want at most %d", n, requests, time.Since(begin), most)
				}
				atRest(t, l)
			})
		})
	}
}

// The bound of a call ends with its caller's context or after Timeout, whichever is first, whether
// or not anything waits for it; and its first answer stays valid.
func TestBoundEndsWithItsCallerOrInTime(t *testing.T) {
	gone := errors.New("the caller has gone")
	for _, c := range []struct {
		name  string
		waits bool // Done is called first
		leave bool
		after time.Duration
		want  error
	}{
		{"at work", false, false, time.Second, nil},
		{"at work, waited for", true, false, time.Second, nil},
		{"too late", false, false, 2 * time.Second, context.DeadlineExceeded},
		{"too late, waited for", true, false, 2 * time.Second, context.DeadlineExceeded},
		{"its caller has gone", false, true, time.Second, context.Canceled},
		{"its caller has gone, waited for", true, true, time.Second, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{Timeout: 2 * time.Second}, func(t *testing.T, w *world, l *Limiter) {
				ctx, leave := context.WithCancelCause(t.Context())
				defer leave(nil)
				b := l.desks.Bounded(ctx)
				defer b.End()
				if c.waits {
					b.Done()
				}
				time.Sleep(c.after)
				if c.leave {
					leave(gone)
				}
				synctest.Wait()
				for range 2 { // the second time, it is waited for
					check.Is(t, b.Err(), c.want, "it says")
					select {
					case <-b.Done():
						if c.want == nil {
							t.Error("it is done")
						}
					default:
						if c.want != nil {
							t.Error("it is not done")
						}
					}
				}
				if c.leave && context.Cause(b) != gone {
					t.Errorf("because of %v", context.Cause(b))
				}
			})
		})
	}
}

// A bound that has ended returns an error: an SDK may still ask it.
func TestABoundThatWasEndedSaysSo(t *testing.T) {
	l := newWorld(t).process(Options{})
	b := l.desks.Bounded(t.Context())
	b.Done()
	b.End()
	check.Is(t, b.Err(), context.Canceled, "it was waited for, ended, and says")
}

// A bound has a deadline: its caller's or its own.
func TestBoundKnowsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWorld(t).process(Options{Timeout: 2 * time.Second})
		for left, want := range map[time.Duration]time.Duration{
			0: 2 * time.Second, time.Second: time.Second, time.Minute: 2 * time.Second,
		} {
			ctx, end := t.Context(), context.CancelFunc(func() {})
			if left > 0 {
				ctx, end = context.WithTimeout(ctx, left)
			}
			if at, ok := l.desks.Bounded(ctx).Deadline(); !ok || at != time.Now().Add(want) {
				t.Errorf("the caller has %s: it ends at %v, %v", left, at, ok)
			}
			end()
		}
	})
}

// After a request, nothing remains of the bounds of its calls: the caller's own context continues.
func TestBoundsEndWithTheRequest(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, w *world, l *Limiter){
		"configuration": func(t *testing.T, w *world, l *Limiter) { must(t, l, stored(Costs{"rpm": 1})) },
		"configuration that is old": func(t *testing.T, w *world, l *Limiter) {
			must(t, l, stored(Costs{"rpm": 1}))
			w.pass(time.Hour)
			must(t, l, stored(Costs{"rpm": 1}))
		},
		"a commit": func(t *testing.T, w *world, l *Limiter) {
			lease := must(t, l, stored(Costs{"rpm": 1}))
			check.Must(t, lease.Settle(Costs{"rpm": 2}))
			check.Must(t, lease.Commit(t.Context()))
		},
		"what is taken ahead": func(t *testing.T, w *world, l *Limiter) {
			w.busy(l, asks(Costs{"rps": 1}, rps1000), 200)
		},
		"a group": func(t *testing.T, w *world, l *Limiter) {
			must(t, l, stored(Costs{"rpm": 1}))
			for range 5 {
				go l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
			}
			time.Sleep(time.Second)
		},
		"a look": func(t *testing.T, w *world, l *Limiter) {
			must(t, l, stored(Costs{"rpm": 10}))
			go l.Wait(t.Context(), stored(Costs{"rpm": 10}))
			time.Sleep(30 * time.Second)
			w.advance(time.Hour)
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Ahead: 500 * time.Millisecond}, func(t *testing.T, w *world, l *Limiter) {
				w.configure(l, "", "", rpm10)
				var mu sync.Mutex
				var bounds []<-chan struct{}
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					time.Sleep(4 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					bounds = append(bounds, op.Done)
					return true, nil
				})
				play(t, w, l)
				l.desks.Wait()
				synctest.Wait()
				for i, done := range bounds {
					select {
					case <-done:
					default:
						t.Errorf("call %d of %d is still bounded", i, len(bounds))
					}
				}
				if len(bounds) < 2 {
					t.Errorf("%d calls", len(bounds))
				}
			})
		})
	}
}
