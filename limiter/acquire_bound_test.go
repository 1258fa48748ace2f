package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
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
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.process(Options{Timeout: 2 * time.Second})
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
					if got := b.Err(); !errors.Is(got, c.want) {
						t.Errorf("it says %v, want %v", got, c.want)
					}
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
