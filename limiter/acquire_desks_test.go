package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// forget drops what is known of buckets, as if they had been evicted.
func forget(l *Limiter, all ...decide.Name) {
	for _, n := range all {
		l.desks.Of(n).Bucket = decide.NewBucket(&decide.Settings{DenyFor: l.opts.DenyFor.Milliseconds(),
			Slack: int64(l.opts.Slack), MaxShards: l.opts.MaxShards})
		l.desks.Of(n) // its lock orders what was set before all later uses
	}
}

// newDesks returns desks of a limiter, without a table.
func newDesks(size int) *desk.Desks {
	return desk.New(nil, desk.Options{Size: size, Notes: func() any { return &notes{} }})
}

// remembered counts the desks of some buckets.
func remembered(l *Limiter, entities ...string) (n int) {
	for _, entity := range entities {
		if l.desks.Peek(decide.Name{Entity: entity, Resource: gpt}) != nil {
			n++
		}
	}
	return n
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
					l.desks.Wait()
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
	var entities []string
	for i := range 10 {
		entities = append(entities, fmt.Sprint("t", i))
	}
	if n := remembered(l, entities...); n != 4 || remembered(l, entities[6:]...) != 4 {
		t.Errorf("%d buckets are kept, want the last four", n)
	}
	n := decide.Name{Entity: "t7", Resource: gpt}
	k := l.desks.Peek(n)
	if k == nil || !k.TakesAhead() {
		t.Fatal("a bucket that owes something is not kept")
	}
	if l.desks.Of(n) != k || remembered(l, "t6", "t7", "t8", "t9") != 4 {
		t.Error("a bucket that is used again does not come back")
	}
	must(t, l, Request{Entity: "more", Resource: gpt, Costs: Costs{"rpm": 1}, Limits: rpm(6000)})
	if remembered(l, "t6") != 0 || remembered(l, "t7", "t8", "t9", "more") != 4 {
		t.Error("the bucket that was kept for the longest time is not the one that goes")
	}
}

// A bucket is not forgotten while requests wait for it, leases hold its slots, or this process keeps a share of
// it, whatever others are asked for. Then it is.
func TestBucketsInUseAreNotForgotten(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		l.desks.Size = 1
		entities := []string{acme, "busy", "alone"}
		for i := range 20 {
			entities = append(entities, fmt.Sprint("t", i))
		}
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
		l.locals.Take([]decide.Want{{Name: decide.Name{Entity: "alone", Resource: gpt},
			Costs: table.Costs([]bucket.Limit{rpm10.stored()}, 1000)}}, l.now())
		flood()
		if !l.desks.Lines.Any(acmeGPT, "") || remembered(l, entities...) != 4 {
			t.Errorf("%d desks are kept, want 3 that are in use, and one", remembered(l, entities...))
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
		if remembered(l, entities...) != 3 || isLost(lease) {
			t.Errorf("%d desks are kept, want 2 that are in use, and one; lost: %v", remembered(l, entities...), isLost(lease))
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.desks.Wait()
		if flood(); remembered(l, entities...) != 2 {
			t.Errorf("%d desks are kept, want the one of a share, and one", remembered(l, entities...))
		}
	})
}
