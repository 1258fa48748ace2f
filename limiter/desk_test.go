package limiter

import (
	"fmt"
	"testing"
	"time"
)

// TestTooFewBucketsRemembered: buckets that are used in turn cost one write each while
// all of them are remembered, else two.
func TestTooFewBucketsRemembered(t *testing.T) {
	const buckets = 100
	for _, c := range []struct{ room, writes, reads int }{{100, 1, 0}, {99, 2, 0}, {50, 2, 1}} {
		w := newWorld(t)
		l := w.process(Options{MaxBuckets: c.room})
		w.configure(l, "", "", rpm10)
		use := func() {
			for i := range buckets {
				must(t, l, Request{Entity: fmt.Sprint("tenant ", i), Resource: gpt, Costs: Costs{"rpm": 1}})
				w.advance(10 * time.Millisecond)
			}
		}
		use()
		w.db.ResetStats()
		use()
		if s := w.db.Stats(); s.Updates != c.writes*buckets || s.Calls() != (c.writes+c.reads)*buckets {
			t.Errorf("room for %d of %d: %+v, want %d writes and %d reads each", c.room, buckets, s, c.writes, c.reads)
		}
	}
}
