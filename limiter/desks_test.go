package limiter

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// forget drops what is known of all buckets, as if it had been evicted.
func (ds *desks) forget() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, k := range ds.by {
		k.Bucket = decide.NewBucket(&ds.settings)
	}
}

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
	ds, n := l.desks, decide.Name{Entity: "t7", Resource: gpt}
	if in, out := ds.recent.Len(), ds.owing.Len(); in != 2 || out != 2 || len(ds.by) != 4 {
		t.Errorf("%d buckets are remembered and %d kept, of %d; want 2 and 2 of 4", in, out, len(ds.by))
	}
	k := ds.peek(n)
	if k == nil || !k.TakesAhead() || k.position.in != &ds.owing {
		t.Fatal("a bucket that owes something is not kept")
	}
	if ds.of(n) != k || k.position.in != &ds.recent || ds.recent.Len() != 2 || ds.owing.Len() != 2 {
		t.Error("a bucket that is used again does not come back")
	}
}

// The bucket that was not used for the longest time is forgotten first, and to look at one is not to use it.
func TestTheLeastUsedBucketIsForgotten(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{MaxBuckets: 3})
	name := func(entity string) decide.Name { return decide.Name{Entity: entity, Resource: gpt} }
	for _, entity := range []string{"a", "b", "c", "a", "d"} {
		must(t, l, Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: rpm(10)})
		l.desks.peek(name("b"))
	}
	ds := newDesks(3, decide.Settings{}) // by itself, too
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

// Requests that meet at a bucket which is not remembered get the same desk.
func TestRequestsMeetAtOneDesk(t *testing.T) {
	for range 3000 {
		ds := newDesks(10, decide.Settings{})
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
		if one := ds.peek(acmeGPT); one == nil || got != [4]*desk{one, one, one, one} {
			t.Fatalf("%v, want one of them", got)
		}
	}
}

// A desk that is pinned is not evicted, and counts, as long as half of the room is left to others. After its
// last pin it is the one that was used last.
func TestPinnedDesksStay(t *testing.T) {
	ds := newDesks(3, decide.Settings{})
	name := func(i int) decide.Name { return decide.Name{Entity: fmt.Sprint(i), Resource: gpt} }
	for i := range 3 {
		ds.pin(name(100 + i))
	}
	ds.of(name(10))
	ds.of(name(11))
	if ds.of(name(12)); len(ds.by) != 5 || ds.recent.Len() != 2 {
		t.Errorf("beside three in use of three, %d others are remembered, want 2", ds.recent.Len())
	}
	for i := range 3 {
		ds.unpin(name(100 + i))
	}
	pinned := ds.pin(name(0))
	for i := range 5 {
		if ds.pin(name(0)) != pinned || ds.of(name(0)) != pinned || ds.get(name(0)) != pinned {
			t.Fatal("another desk than the one that is pinned")
		}
		ds.of(name(10 + i))
	}
	for i := range 6 { // five pins are off, one is on
		if n := ds.recent.Len(); n != 2 || len(ds.by) != 3 || ds.peek(name(0)) != pinned {
			t.Fatalf("%d pins are off: %d desks are remembered of %d", i, n, len(ds.by))
		}
		ds.unpin(name(0))
	}
	if len(ds.by) != 3 || ds.peek(name(0)) != pinned || ds.peek(name(14)) == nil {
		t.Error("a desk that is not pinned any more is not the one used last")
	}
	ds.of(name(20))
	ds.of(name(21))
	if ds.of(name(22)); ds.peek(name(0)) != nil || len(ds.by) != 3 {
		t.Error("a desk that was pinned stays for ever")
	}
	defer func() {
		if recover() == nil {
			t.Error("a desk is unpinned that is not pinned")
		}
	}()
	ds.unpin(name(21))
}

// The desks are the only map of a limiter by bucket: what belongs to a bucket is at its desk.
func TestOneMapByBucket(t *testing.T) {
	var maps []string
	seen := map[reflect.Type]bool{reflect.TypeFor[sync.Mutex](): true}
	var walk func(path string, in reflect.Type)
	walk = func(path string, in reflect.Type) {
		if seen[in] {
			return
		}
		if in == reflect.TypeFor[sync.Map]() || in.Kind() == reflect.Map && in.Key() == reflect.TypeFor[decide.Name]() {
			maps = append(maps, path)
			return
		}
		seen[in] = true
		switch in.Kind() {
		case reflect.Struct:
			for f := range in.Fields() {
				walk(path+"."+f.Name, f.Type)
			}
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(path, in.Elem())
		}
	}
	walk("limiter", reflect.TypeFor[Limiter]())
	walk("desk", reflect.TypeFor[desk]())
	if !slices.Equal(maps, []string{"limiter.desks.by"}) {
		t.Errorf("%v are maps by bucket, want that of the desks alone", maps)
	}
}

// A bucket is not forgotten while requests wait for it, leases hold its slots, or this process keeps a share of
// it, whatever others are asked for. Then it is.
func TestBucketsInUseAreNotForgotten(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		l.desks.size = 1
		flood := func() {
			for i := range 20 {
				must(t, l, Request{Entity: fmt.Sprint("t", i), Resource: gpt, Costs: Costs{"rpm": 1}, Limits: rpm(10)})
			}
		}
		first := must(t, l, asks(Costs{"rpm": 10}, rpm10))
		begin, ended := time.Now(), make(chan string)
		for _, n := range []int64{5, 8, 1} { // the last one finds the queue full
			go func() {
				_, err := l.Wait(t.Context(), asks(Costs{"rpm": n}, rpm10))
				ended <- fmt.Sprint(n, " ", kindName(err), " ", time.Since(begin).Round(time.Second))
			}()
			time.Sleep(time.Second)
		}
		job := Request{Entity: "busy", Resource: gpt, Costs: Costs{"jobs": 1},
			Limits: []Limit{InFlight("jobs", 1, time.Minute)}}
		lease := must(t, l, job)
		l.locals.take([]decide.Want{{Name: decide.Name{Entity: "alone", Resource: gpt},
			Costs: table.Costs([]bucket.Limit{rpm10.stored()}, 1000)}}, l.now())
		flood()
		if !l.lines.Any(acmeGPT, "") || len(l.desks.by) != 4 {
			t.Errorf("%d desks are kept, want 3 that are in use, and one", len(l.desks.by))
		}
		time.Sleep(5 * time.Second)
		if err := first.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-ended + ", " + <-ended + ", " + <-ended; got != "5 granted 8s, 8 granted 18s, 1 granted 24s" {
			t.Error(got)
		}
		time.Sleep(3 * time.Minute)
		flood()
		if len(l.desks.by) != 3 || isLost(lease) {
			t.Errorf("%d desks are kept, want 2 that are in use, and one; lost: %v", len(l.desks.by), isLost(lease))
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.background.Wait()
		if flood(); len(l.desks.by) != 2 {
			t.Errorf("%d desks are kept, want the one of a share, and one", len(l.desks.by))
		}
	})
}

// However many buckets a limiter has met, the number of its desks is bounded.
func TestDesksAreBounded(t *testing.T) {
	const room, names = 100, 100_000
	ds := newDesks(room, decide.Settings{})
	for i := range names {
		n := decide.Name{Entity: fmt.Sprint(i), Resource: gpt}
		if ds.of(n); i%2 == 0 {
			ds.pin(n)
			ds.unpin(n)
		}
		if len(ds.by) > room || ds.recent.Len() != len(ds.by) {
			t.Fatalf("%d desks, %d in order of use, want %d", len(ds.by), ds.recent.Len(), room)
		}
	}
}
