package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
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

// What was taken ahead of a bucket and ended unspent is told when it is written again, also where others
// have pushed it out meanwhile: usage is what was granted.
func TestUsageOfForgottenBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const buckets = 6
		w := newWorld(t)
		l := w.process(Options{Ahead: 2 * time.Second, MaxBuckets: buckets / 2})
		asking := func(i int, n int64) Request {
			return Request{Entity: fmt.Sprint("t", i), Resource: gpt, Costs: Costs{"rpm": n}, Limits: rpm(6000)}
		}
		granted := int64(0)
		for range 5 {
			for i := range buckets {
				for range 60 { // a hundred a second
					w.pass(10 * time.Millisecond)
					must(t, l, asking(i, 1))
					l.background.Wait()
					granted++
				}
			}
			w.pass(time.Minute)
		}
		var used, ended int64
		for i := range buckets {
			must(t, l, asking(i, 0)) // all that ended is told by now
			u, x := w.countedOf(l, fmt.Sprint("t", i))
			used, ended = used+u, ended+x
		}
		if used-ended != granted || ended == 0 {
			t.Errorf("%d granted; usage is %d, of which %d were never granted", granted, used, ended)
		}
	})
}

// As many buckets are kept that owe something as are remembered, and nobody's is kept twice.
func TestForgottenBucketsAreBounded(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{Ahead: time.Second, MaxBuckets: 2})
	for i := range 10 {
		must(t, l, Request{Entity: fmt.Sprint("t", i), Resource: gpt, Costs: Costs{"rpm": 1}, Limits: rpm(6000)})
	}
	if in, out := l.desks.cache.Len(), l.desks.owing.Len(); in != 2 || out != 2 {
		t.Errorf("%d buckets are remembered and %d kept, want 2 and 2", in, out)
	}
	n := known.Name{Entity: "t7", Resource: gpt}
	if k := l.desks.of(n); k == nil || !k.TakesAhead() || l.desks.owing.Contains(n) || l.desks.of(n) != k {
		t.Error("a bucket that is used again does not come back")
	}
}
