package limiter

import (
	"testing"
	"time"
)

// A quota from its first use of which requests take nothing, and leases settle some, begins and ends as ever.
func TestAQuotaThatIsOnlySettled(t *testing.T) {
	for _, within := range []time.Duration{0, time.Minute} {
		for _, cost := range []int64{10, 11} {
			inBubble(t, Options{SettleWithin: within}, func(t *testing.T, w *world, l *Limiter) {
				limits := []Limit{PerMinute("rpm", 100), Quota("q", 10, FromFirstUse(time.Hour))}
				settled(t, l, asks(Costs{"rpm": 1}, limits...), Costs{"q": cost})
				_, _ = l.Acquire(t.Context(), asks(Costs{"rpm": 1}, limits...))
				fine(t, l.Close(t.Context()))
				w.advance(30 * 24 * time.Hour)
				must(t, w.bystander(l), asks(Costs{"rpm": 1, "q": 1}, limits...))
			})
		}
	}
}
