package limiter

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// A wait that is longer than a Duration can say is the longest one: it is never
// negative, which callers would take for "at once", and the request is not called
// too large for a bucket that can hold it.
func TestWaitsOfCenturies(t *testing.T) {
	for _, limit := range []Limit{
		PerDay("rpm", 1).WithCapacity(1_000_000),
		{Name: "rpm", Capacity: MaxTokens, Refill: 1, Period: maxPeriod},
	} {
		_, l := newProcess(t, Options{})
		req := asks(Costs{"rpm": limit.Capacity}, limit)
		must(t, l, req)
		_, err := l.Acquire(t.Context(), req)
		d, ok := errors.AsType[*LimitError](err)
		if !ok {
			t.Errorf("%s: got %v, want denied", limit, err)
			continue
		}
		const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
		if d.RetryAfter != longest || d.Statuses[0].RetryAfter != longest {
			t.Errorf("%s: retry after %s, status %s, want %s", limit, d.RetryAfter, d.Statuses[0].RetryAfter, longest)
		}
		if text := d.Error(); !strings.HasSuffix(text, " left, not within 292 years") {
			t.Errorf("%s: says %q", limit, text)
		}
	}
}

// owed returns a bucket that owes more of two limits than is refilled in centuries.
func owed(t *testing.T, w *world, l *Limiter) Request {
	t.Helper()
	req := asks(Costs{"a": 1, "b": 1}, PerHour("a", 1).WithCapacity(10), PerHour("b", 2).WithCapacity(10))
	lease := must(t, l, req)
	fine(t, errors.Join(lease.Settle(Costs{"a": MaxTokens, "b": MaxTokens}), lease.Commit(t.Context())))
	return req
}

// A Wait with no deadline that finds such a queue stands in line until its caller goes,
// and does nothing meanwhile.
func TestWaitForCenturies(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
		req := owed(t, w, l)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Minute, cancel)
		asked, now := 0, l.opts.Now
		l.opts.Now = func() time.Time {
			if asked++; asked > 100 {
				cancel()
			}
			return now()
		}
		if _, err := l.Wait(ctx, req); !errors.Is(err, ErrCanceled) || asked > 100 {
			t.Errorf("decided again and again: asked the clock %d times, %v", asked, err)
		}
	})
}
