package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A count of shards that no limit can be divided by makes every share nothing. It is
// repaired by the first who sees it, at a cost that does not grow with the count,
// and nobody looks for a million shards.
func TestAbsurdCountsAreRepaired(t *testing.T) {
	for _, count := range []int64{3, 64, 1024, 4096, 1 << 20} {
		for _, fresh := range []bool{false, true} {
			w := newWorld(t)
			l := w.process(Options{})
			limit := PerHour("rph", 10)
			must(t, l, asks(Costs{"rph": 1}, limit))
			w.edit(l, 0, item.Item{"shard_count": item.N(count)})
			w.db.ResetStats()
			if fresh {
				l = w.process(Options{})
			}
			granted := 0
			for range 3 { // what shard 0 holds above its share is lost, nothing is minted
				if _, err := l.Acquire(t.Context(), asks(Costs{"rph": 1}, limit)); err == nil {
					granted++
				}
				l.background.Wait()
			}
			st := w.db.Stats()
			if b := w.shards(l, acme, gpt); len(b) > 8 || b[0].State.Shards > 8 || st.Updates+st.Transactions > 60 {
				t.Errorf("count %d: %d shards of %d after %d updates and %d transactions", count, len(b), b[0].State.Shards,
					st.Updates, st.Transactions)
			}
			w.advance(2 * time.Hour)
			n := drain(t, l, asks(Costs{"rph": 1}, limit))
			if n == 0 || granted+n > 19 {
				t.Errorf("count %d: %d granted at once, %d after two hours", count, granted, n)
			}
		}
	}
}
