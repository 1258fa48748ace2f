package limiter

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A count of shards that nobody can have configured makes every share nothing, so
// no request can be granted; what matters until somebody repairs the count is that
// no request costs more than one write to learn that, and that nobody looks for a
// million shards.
func TestAbsurdCountsAreNotBelieved(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	limit := PerMinute("rpm", 1000)
	must(t, l, asks(Costs{"rpm": 1}, limit))
	w.edit(l, 0, item.Item{"shard_count": item.N(1 << 20)})
	for _, p := range []*Limiter{l, w.process(Options{})} {
		for _, cost := range []int64{1, 999} {
			w.db.ResetStats()
			for range 10 {
				if _, err := p.Acquire(t.Context(), asks(Costs{"rpm": cost}, limit)); !errors.Is(err, ErrTooLarge) {
					t.Fatalf("got %v, want too large", err)
				}
			}
			p.background.Wait()
			if st := w.db.Stats(); st.Updates > 1 || st.Transactions > 0 {
				t.Errorf("10 requests of %d: %d updates and %d transactions", cost, st.Updates, st.Transactions)
			}
		}
		if v := p.images.view(name{acme, gpt}); v.count > 1 {
			t.Errorf("a count of %d is believed", v.count)
		}
	}
}
