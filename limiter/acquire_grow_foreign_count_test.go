package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Python clients double the shards of a bucket, and nobody splits it. A doubling that leaves a
// share of a token or more is followed: shard 0 keeps its share of what it held, and the others
// begin with nothing. That is lost, and earned again at the rate of the whole. Beyond what a token
// can be divided by, the bucket is whole again within seconds, and has all its tokens; without an
// aggregator too.
func TestDoublingsByOthers(t *testing.T) {
	for _, c := range []struct{ count, atOnce, shards int }{
		{2, 5, 2}, {4, 2, 4}, {8, 1, 8}, {16, 10, 1}, {64, 10, 1}, {256, 10, 1}, {4096, 10, 1},
	} {
		for _, aggregated := range []bool{true, false} {
			if !aggregated && c.shards > 1 {
				continue
			}
			w := newWorld(t)
			l := w.process(Options{})
			one := asks(Costs{"rph": 1}, PerHour("rph", 10))
			must(t, l, one).Rollback(t.Context())
			changes := w.db.Changes(0)
			agg := &follower{w: w, seq: changes[len(changes)-1].Seq}
			w.edit(l, 0, item.Item{"shard_count": item.N(int64(c.count))})
			if aggregated && c.shards == 1 { // it is the first to see the count
				agg.follow(l)
			}
			granted := 0
			for range 80 {
				if _, err := l.Acquire(t.Context(), one); err == nil {
					granted++
				}
				l.desks.Wait()
				if aggregated {
					agg.follow(l)
				}
				w.advance(100 * time.Millisecond)
			}
			if counts := w.counts(l); granted != c.atOnce || len(counts) != c.shards || !even(counts) {
				t.Errorf("count %d, aggregator %v: %d of 10 granted in 8 s, want %d; shards %v", c.count, aggregated, granted,
					c.atOnce, counts)
			}
			w.advance(time.Hour)
			w.wantHeld(l, PerHour("rph", 10), 10)
		}
	}
}
