package limiter

import (
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
		{"rpm", MaxTokens, 1, maxPeriod},
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
