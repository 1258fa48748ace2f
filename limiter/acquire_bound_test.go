package limiter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// The bound of a call ends with its caller's context or after Timeout, whichever is first, whether
// or not somebody waits for that; and what is said once stays true.
func TestBoundEndsWithItsCallerOrInTime(t *testing.T) {
	gone := errors.New("the caller has gone")
	for _, c := range []struct {
		name  string
		waits bool // Done is asked for first
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
				for range 2 { // the second time it is waited for
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

// What is left of a bound that has ended says why: an SDK may still ask it.
func TestABoundThatWasEndedSaysSo(t *testing.T) {
	l := newWorld(t).process(Options{})
	b := l.desks.Bounded(t.Context())
	b.Done()
	if b.End(); !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("it was waited for, ended, and says %v", b.Err())
	}
}

// A bound tells when it ends: with its caller's time or its own.
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

// After a request is over, nothing is left of what bounded its calls, whatever they were for: the caller's own
// context goes on.
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
