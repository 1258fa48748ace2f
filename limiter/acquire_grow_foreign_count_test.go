package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// TestDoubledSmallBucketKeepsItsTokens: Python clients double the shards of a
// small bucket beyond what a token can be divided by, and nobody splits it. Within
// seconds it is whole again, and has all its tokens; without an aggregator too.
func TestDoubledSmallBucketKeepsItsTokens(t *testing.T) {
	for _, count := range []int64{16, 64, 256, 4096} {
		for _, aggregated := range []bool{true, false} {
			w := newWorld(t)
			l := w.process(Options{})
			one := asks(Costs{"rph": 1}, PerHour("rph", 10))
			must(t, l, one).Rollback(t.Context())
			changes := w.db.Changes(0)
			agg := &follower{w: w, seq: changes[len(changes)-1].Seq}
			w.edit(l, 0, item.Item{"shard_count": item.N(count)})
			if aggregated { // it is the first to see the count
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
			if counts := w.counts(l); granted != 10 || len(counts) != 1 || counts[0] != 1 {
				t.Errorf("count %d, aggregator %v: %d of 10 granted in 8 s, shards %v", count, aggregated, granted, counts)
			}
		}
	}
}

// TestDoublingThatIsFollowed: a doubling by others that leaves a share of a token or
// more is followed. Shard 0 then keeps its share of what it held, and the others begin
// with nothing: that is what is lost, and it is earned again at the rate of the whole.
func TestDoublingThatIsFollowed(t *testing.T) {
	for _, c := range []struct{ count, atOnce int64 }{{2, 5}, {4, 2}, {8, 1}} {
		w := newWorld(t)
		l := w.process(Options{})
		one := asks(Costs{"rph": 1}, PerHour("rph", 10))
		must(t, l, one).Rollback(t.Context())
		changes := w.db.Changes(0)
		agg := &follower{w: w, seq: changes[len(changes)-1].Seq}
		w.edit(l, 0, item.Item{"shard_count": item.N(c.count)})
		granted := int64(0)
		for range 80 {
			if _, err := l.Acquire(t.Context(), one); err == nil {
				granted++
			}
			l.desks.Wait()
			agg.follow(l)
			w.advance(100 * time.Millisecond)
		}
		if granted != c.atOnce {
			t.Errorf("count %d: %d of 10 granted in 8 s, want %d", c.count, granted, c.atOnce)
		}
		w.advance(time.Hour)
		w.wantHeld(l, PerHour("rph", 10), 10)
	}
}
