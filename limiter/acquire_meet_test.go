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
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
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

// blinds makes a process forget a bucket, and fails its read of it: it begins with a plain add.
func (w *world) blinds(l *Limiter, n decide.Name) *Limiter {
	l.configs.resolve(w.t.Context(), n, []bucket.Limit{}, l.now())
	l.desks.Of(n).Bucket = decide.NewBucket(&l.desks.Settings)
	l.store.Store = &blind{Store: l.store.Store}
	return l
}

// TestFirstTouch: a process that meets a bucket reads it with the limits, or by itself where they are known
// or given, and charges it with one write. Ten processes that meet forty full buckets write once for each
// request.
func TestFirstTouch(t *testing.T) {
	for name, c := range map[string]struct {
		own   []Limit
		reads float64 // read units for each bucket, the shared records apart
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

// An image that lags is as good: others have written since, or it shows no bucket where there is one. The
// write that is refused brings what there is, and no token is granted twice.
func TestFirstTouchOfALaggingTable(t *testing.T) {
	for _, spent := range []int64{1, 6} {
		w := newWorld(t)
		w.db.Lags = func(k item.Key) bool {
			_, _, _, _, ok := layout.ParseBucketPK(k.PK)
			return ok
		}
		must(t, w.process(Options{}), asks(Costs{"rpm": spent}, rpm10)) // others see no bucket
		l := w.process(Options{})
		w.db.ResetStats()
		must(t, l, asks(Costs{"rpm": 1}, rpm10))
		if s := w.db.Stats(); s.Puts != 1 || s.Updates != 1 {
			t.Errorf("%+v, want one refused and one that holds", s)
		}
		other := w.process(Options{}) // it sees the bucket as it was created
		if n := drain(t, other, asks(Costs{"rpm": 1}, rpm10)); int64(n) != 10-spent-1 {
			t.Errorf("%d granted after %d and 1, of 10", n, spent)
		}
	}
}

// A read that fails does not fail the request: a plain add takes its place. One that hangs takes the time of
// the request, and nothing is written.
func TestFirstTouchUnderFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(memdynamo.Op) (bool, error)
		want  error
	}{
		"throttled": {func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Throttled) }, nil},
		"down":      {func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }, nil},
		"lost":      {func(memdynamo.Op) (bool, error) { return true, memdynamo.Fail(store.Unknown) }, nil},
		"hung":      {func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil }, ErrUnavailable},
		"panic":     {func(memdynamo.Op) (bool, error) { panic("client") }, ErrUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			must(t, w.process(Options{}), asks(Costs{"rpm": 6}, rpm10))
			l := w.process(Options{Timeout: time.Second})
			l.configs.resolve(t.Context(), acmeGPT, []bucket.Limit{}, l.now())
			l.desks.Of(acmeGPT).Bucket = decide.NewBucket(&l.desks.Settings)
			w.db.SetHook(onCall(func(op memdynamo.Op) bool { return op.Name == memdynamo.BatchGetItem }, 0, c.fault))
			w.db.ResetStats()
			_, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10))
			l.desks.Wait()
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if s := w.db.Stats(); c.want == nil && s.Updates != 1 || c.want != nil && s.Updates != 0 {
				t.Errorf("%s: %+v", name, s)
			}
			atRest(t, l)
		})
	}
}

// What a first read shows may deny without a write. Where nothing older than the request may deny, it is
// consistent, and what comes with the limits is looked at once more.
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

// Requests that are refused, because there are no limits or the entity is bypassed, read a bucket in vain. They
// leave what is known of others as it is.
func TestRefusedStrangersEvictNobody(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{MaxBuckets: 10})
	w.configure(l, acme, gpt, rpm10)
	must(t, l, asks(Costs{"rpm": 1}))
	for i := range 20 {
		req := Request{Entity: fmt.Sprint("stranger ", i), Resource: gpt, Costs: Costs{"rpm": 1}}
		if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrNoLimits) {
			t.Fatal(err)
		}
	}
	if l.desks.Peek(acmeGPT) == nil {
		t.Error("a bucket in use is forgotten")
	}
}

// Where more buckets are in use than a process remembers, each request meets its bucket anew, and writes once.
func TestMoreBucketsThanAreRemembered(t *testing.T) {
	const buckets, rounds = 40, 10
	w := newWorld(t)
	l := w.process(Options{MaxBuckets: buckets / 4})
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
