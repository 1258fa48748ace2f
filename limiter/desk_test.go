package limiter

import (
	"fmt"
	"sync"
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

// The bucket that was not used for the longest time is forgotten first, and to look at one is not to use it.
func TestTheLeastUsedBucketIsForgotten(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{MaxBuckets: 3})
	name := func(entity string) known.Name { return known.Name{Entity: entity, Resource: gpt} }
	for _, entity := range []string{"a", "b", "c", "a", "d"} {
		must(t, l, Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: rpm(10)})
		l.desks.peek(name("b"))
	}
	ds := newDesks(3, known.Settings{}) // by itself, too
	for _, entity := range []string{"a", "b", "c", "a", "d"} {
		ds.of(name(entity))
	}
	for entity, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		for i, ds := range []*desks{l.desks, ds} {
			if got := ds.peek(name(entity)) != nil; got != want {
				t.Errorf("%d: %s is remembered: %v", i, entity, got)
			}
		}
	}
}

// Requests that meet at a bucket which is not remembered get the same of it. What it owes is with it, or kept
// until it is forgotten the next time.
func TestRequestsMeetAtOneDesk(t *testing.T) {
	for _, owes := range []bool{false, true} {
		for range 3000 {
			ds := newDesks(10, known.Settings{})
			owing := &desk{Bucket: known.NewBucket(&ds.settings)}
			if owes {
				ds.owing.Add(acmeGPT, owing)
			}
			var got [4]*desk
			begin := make(chan struct{})
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() {
					<-begin
					got[i] = ds.of(acmeGPT)
				})
			}
			close(begin)
			all.Wait()
			if one := ds.peek(acmeGPT); got != [4]*desk{one, one, one, one} {
				t.Fatalf("%v, want one of them", got)
			}
			if kept, ok := ds.owing.Peek(acmeGPT); owes && got[0] != owing && kept != owing || ok && got[0] == owing {
				t.Fatalf("owing %v: remembered %v, kept %v", owing, got[0], kept)
			}
		}
	}
}

// Of two requests that make one at once, the second gets that of the first. What its own one owes is kept.
func TestAnotherRequestWasFaster(t *testing.T) {
	ds := newDesks(10, known.Settings{})
	made := func() *desk { return &desk{Bucket: known.NewBucket(&ds.settings)} }
	first, second, third := made(), made(), made()
	for i, c := range []struct {
		adds *desk
		owes bool
		kept *desk
	}{
		{first, false, nil}, {second, false, nil}, {first, true, nil}, {third, true, third},
	} {
		if got := ds.add(acmeGPT, c.adds, c.owes); got != first {
			t.Errorf("%d: another than the first is remembered", i)
		}
		if kept, _ := ds.owing.Peek(acmeGPT); kept != c.kept {
			t.Errorf("%d: kept %v, want %v", i, kept, c.kept)
		}
	}
}

// The writes under way are noted by shard, each by itself.
func TestWritesUnderWayAreNotedByShard(t *testing.T) {
	var all flights
	one, two := &flight{}, &flight{}
	all.set(0, one)
	all.set(1, two)
	if all[0] != one || all[1] != two {
		t.Errorf("noted %v", all)
	}
	if all.set(0, nil); all[0] != nil || all[1] != two || len(all) != 1 {
		t.Errorf("left %v", all)
	}
}
