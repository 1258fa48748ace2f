package limiter

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
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
		w := newWorld(t)
		l := w.process(Options{})
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
	if err := errors.Join(lease.Settle(Costs{"a": MaxTokens, "b": MaxTokens}), lease.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	return req
}

// That holds for each limit of a denial, whichever of them denies, and for a full queue.
func TestWaitsOfCenturiesOfEachLimit(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	req := owed(t, w, l)
	_, denied := l.Acquire(t.Context(), req)
	_, _, full := l.Reserve(t.Context(), req)
	for _, err := range []error{denied, full} {
		d, ok := errors.AsType[*LimitError](err)
		if !ok {
			t.Fatalf("got %v, want denied", err)
		}
		for _, s := range d.Statuses {
			if s.RetryAfter != longestWait {
				t.Errorf("%v: status of %s says %s, want %s", err, s.Limit, s.RetryAfter, longestWait)
			}
		}
	}
}

// A Wait with no deadline that finds such a queue stands in line until its caller goes,
// and does nothing meanwhile.
func TestWaitForCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{})
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
