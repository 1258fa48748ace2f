package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// blind is a table that does not answer the first read.
type blind struct {
	store.Store
	reads atomic.Int64
}

func (s *blind) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	if s.reads.Add(1) == 1 {
		return nil, memdynamo.Fail(store.Throttled)
	}
	return s.Store.Read(ctx, consistent, keys...)
}

// blinds makes a process forget a bucket, and fails its read of it, so it starts with a plain add.
func (w *world) blinds(l *Limiter, n decide.Name) *Limiter {
	l.configs.Resolve(w.t.Context(), n, &inforce.Own{Limits: []bucket.Limit{}}, l.now(), true)
	l.desks.Of(n).Bucket = decide.NewBucket(&l.desks.Settings)
	l.store.Store = &blind{Store: l.store.Store}
	return l
}

// TestFirstTouch: a process reads a bucket on first use together with the limits, or alone if those
// are cached or given, and charges it with one write. Ten processes that first use forty full
// buckets write once per request.
func TestFirstTouch(t *testing.T) {
	for name, c := range map[string]struct {
		own   []Limit
		reads float64 // read units per bucket, without shared records
	}{"limits stored": {nil, 2}, "limits given": {[]Limit{rpm10}, 2}} {
		const processes, buckets = 10, 40
		w := newWorld(t)
		w.configure(w.process(Options{}), "", "", rpm10)
		var all []*Limiter
		for range processes {
			all = append(all, w.process(Options{}))
		}
		ask := func(l *Limiter, i int) {
			t.Helper()
			must(t, l, Request{Entity: fmt.Sprint("tenant ", i), Resource: gpt, Costs: Costs{"rpm": 1}, Limits: c.own})
		}
		for i := range buckets {
			ask(w.process(Options{}), i)
		}
		w.advance(time.Hour) // they are full again
		w.db.ResetStats()
		for i := range processes * buckets {
			ask(all[i%processes], i/processes)
			w.advance(time.Second)
		}
		s := w.db.Stats()
		if s.WriteUnits != processes*buckets {
			t.Errorf("%s: %v write units for %d requests", name, s.WriteUnits, processes*buckets)
		}
		if s.Reads > processes*buckets || s.ReadUnits > c.reads*processes*buckets+2*processes*processes {
			t.Errorf("%s: %d reads of %v units for %d requests", name, s.Reads, s.ReadUnits, processes*buckets)
		}
	}
}

// A process reads a shard on first use, and its first write there holds. A blind write would be
// refused if the shard is full since.
func TestFirstTouchOfShards(t *testing.T) {
	w, l := newProcess(t, Options{})
	limit := PerHour("rph", 80)
	must(t, l, asks(Costs{"rph": 0}, limit))
	w.split(l, 4)
	for i := range 20 {
		w.advance(time.Duration(i%2) * time.Hour)
		p := w.process(Options{})
		w.db.ResetStats()
		lease := must(t, p, asks(Costs{"rph": 1}, limit))
		check.Equal(t, w.db.Stats().Updates, 1, "writes")
		check.Must(t, lease.Rollback(t.Context()))
	}
}

// A stale image is no worse: others have written since, or it shows no bucket although there is
// one. The refused write returns the current item, and no token is granted twice.
func TestFirstTouchOfALaggingTable(t *testing.T) {
	for _, spent := range []int64{1, 6} {
		w := newWorld(t)
		w.db.Lags = func(k item.Key) bool {
			_, _, _, _, ok := layout.ParseBucketPK(k.PK)
			return ok
		}
		must(t, w.process(Options{}), asks(Costs{"rpm": spent}, rpm10)) // the read of other processes shows no bucket
		l := w.process(Options{})
		w.db.ResetStats()
		must(t, l, asks(Costs{"rpm": 1}, rpm10))
		if s := w.db.Stats(); s.Puts != 1 || s.Updates != 1 {
			t.Errorf("%+v, want one refused and one that holds", s)
		}
		other := w.process(Options{}) // it reads the bucket as it was created
		n := drain(t, other, asks(Costs{"rpm": 1}, rpm10))
		check.Equal(t, int64(n), 10-spent-1, "%d granted after %d and 1, of 10", n, spent)
	}
}

// A first read may deny without a write. If nothing older than the request may deny, the read is
// consistent, and an image that came with the limits is read once more.
func TestFirstTouchDenies(t *testing.T) {
	for denyFor, writes := range map[time.Duration]int{0: 0, -1: 1} {
		w := newWorld(t)
		must(t, w.process(Options{}), asks(Costs{"rpm": 10}, rpm10))
		l := w.process(Options{DenyFor: denyFor})
		w.db.ResetStats()
		_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
		if s := w.db.Stats(); !errors.Is(err, ErrLimited) || s.Updates != writes || s.Reads != 1 {
			t.Errorf("DenyFor %v: %v, %+v, want %d writes and a read", denyFor, err, s, writes)
		}
	}
}

// Requests that fail because there are no limits, or that are bypassed, read a bucket in vain. They
// leave the images of others cached.
func TestRefusedRequestsEvictNoBuckets(t *testing.T) {
	w, l := newProcess(t, Options{MaxBuckets: 10})
	w.configure(l, acme, gpt, rpm10)
	must(t, l, asks(Costs{"rpm": 1}))
	for i := range 20 {
		req := Request{Entity: fmt.Sprint("stranger ", i), Resource: gpt, Costs: Costs{"rpm": 1}}
		check.MustBe(t, check.Err(l.Acquire(t.Context(), req)), ErrNoLimits)
	}
	if l.desks.Peek(acmeGPT) == nil {
		t.Error("a bucket in use is forgotten")
	}
}

// If more buckets are in use than a process remembers, each request reads its bucket again, and
// writes once.
func TestMoreBucketsThanAreRemembered(t *testing.T) {
	const buckets, rounds = 40, 10
	w, l := newProcess(t, Options{MaxBuckets: buckets / 4})
	ask := func(i int) {
		t.Helper()
		must(t, l, Request{Entity: fmt.Sprint("tenant ", i%buckets), Resource: gpt, Costs: Costs{"rpm": 1},
			Limits: []Limit{rpm10}})
		w.advance(time.Second)
	}
	for i := range buckets {
		ask(i)
	}
	w.db.ResetStats()
	for i := range rounds * buckets {
		ask(i)
	}
	if n := w.db.Stats().WriteUnits; n != rounds*buckets {
		t.Errorf("%v write units for %d requests", n, rounds*buckets)
	}
}

// forget drops buckets from the cache, as if evicted.
func forget(l *Limiter, all ...decide.Name) {
	for _, n := range all {
		l.desks.Of(n).Bucket = decide.NewBucket(&decide.Settings{DenyFor: l.opts.DenyFor.Milliseconds(),
			Slack: int64(l.opts.Slack), MaxShards: l.opts.MaxShards})
		l.desks.Of(n) // its lock orders what was set before all later uses
	}
}

// newDesks returns desks of a limiter, without a table.
func newDesks(size int) *desk.Desks {
	return desk.New(nil, desk.Options{Size: size, Notes: inforce.Notes})
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

// Expired prefetched tokens of a bucket are reported with its next write, even if it was evicted
// meanwhile: usage equals the grants.
func TestUsageOfForgottenBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const buckets = 6
		w, l := newProcess(t, Options{Ahead: 2 * time.Second, MaxBuckets: buckets / 2})
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
			must(t, l, asking(i, 0)) // all expired tokens are reported by now
			u, x := w.countedOf(l, fmt.Sprint("t", i))
			used, ended = used+u, ended+x
		}
		if used-ended != granted || ended == 0 {
			t.Errorf("%d granted; usage is %d, of which %d were never granted", granted, used, ended)
		}
	})
}

// As many evicted buckets with pending reports are kept as buckets are remembered, each once.
func TestForgottenBucketsAreBounded(t *testing.T) {
	_, l := newProcess(t, Options{Ahead: time.Second, MaxBuckets: 2})
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

// A bucket is not evicted while requests wait for it, leases hold its slots, or this process has a
// local share of it, whatever other buckets are used. Afterwards it is.
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
		if !l.desks.Waiting.InLine(acmeGPT, "") || remembered(l, entities...) != 4 {
			t.Errorf("%d desks are kept, want 3 that are in use, and one", remembered(l, entities...))
		}
		time.Sleep(5 * time.Second)
		check.Must(t, first.Rollback(t.Context()))
		check.Equal(t, <-ended+", "+<-ended+", "+<-ended, "5 granted 8s, 8 granted 18s, 1 granted 24s")
		time.Sleep(3 * time.Minute)
		flood()
		if remembered(l, entities...) != 3 || isLost(lease) {
			t.Errorf("%d desks are kept, want 2 that are in use, and one; lost: %v", remembered(l, entities...), isLost(lease))
		}
		check.Must(t, lease.Commit(t.Context()))
		l.desks.Wait()
		flood()
		check.Equal(t, remembered(l, entities...), 2, "desks are kept, want the one of a share, and one")
	})
}
