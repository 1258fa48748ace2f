package streams

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// An invocation looks up the snapshots of its other buckets after eight buckets were found counted,
// and no more were counted now: then it is most likely the second attempt.
func TestSnapshotsAreLookedUpAfterEightCounted(t *testing.T) {
	for _, c := range []struct {
		found, wrote int
		want         bool
	}{{0, 0, false}, {7, 0, false}, {8, 0, true}, {8, 8, true}, {8, 9, false}, {20, 20, true}, {20, 21, false}} {
		r := newRig(t)
		bucket := &counting{parts: []usage.Part{{Bucket: gpt("e"), Runs: []usage.Run{{}}}}}
		l := newLookup(r.agg, []*counting{bucket})
		for range c.found {
			l.learn(0)
		}
		for range c.wrote {
			l.learn(1)
		}
		consistent := false // must include recent writes
		r.watch(func(op memdynamo.Op) { consistent = op.Consistent })
		check.Equal(t, l.snapshots(t.Context(), bucket) != nil, c.want, "%d found, %d counted", c.found, c.wrote)
		check.Equal(t, consistent, c.want, "%d found, %d counted: consistent", c.found, c.wrote)
	}
}

// Buckets that are looked up together take one call, even with a snapshot in each of two hours.
func TestLookupsTakeOneCall(t *testing.T) {
	r := newRig(t)
	var due []*counting
	for i := range 2 * item.MaxReadKeys {
		first := usage.Part{Bucket: gpt(fmt.Sprint(i)), Runs: []usage.Run{{}}}
		second := first
		second.Start = time.Hour.Milliseconds()
		due = append(due, &counting{parts: []usage.Part{first, second}})
	}
	var calls []int
	r.watch(func(op memdynamo.Op) { calls = append(calls, len(op.Keys)) })
	l := newLookup(r.agg, due)
	l.found.Store(lookAfter)
	l.snapshots(t.Context(), due[0])
	check.Slices(t, calls, []int{item.MaxReadKeys}, "calls of keys")
}

// Large snapshots are not held: thousands of them would take all memory.
func TestLargeSnapshotsAreNotHeld(t *testing.T) {
	r := newRig(t)
	due := []*counting{{parts: []usage.Part{{Bucket: gpt("e"), Runs: []usage.Run{{}}}}}}
	l := newLookup(r.agg, due)
	total := usage.Totals(due[0].parts, usage.Hourly)[0]
	it := total.Key().Item()
	for size, held := range map[int]bool{lookBytes: true, lookBytes + 1: false} {
		it["x"] = item.S("")
		it["x"] = item.S(strings.Repeat("x", size-item.Size(it)))
		r.db.Store(it)
		check.Equal(t, l.read(t.Context(), due)[total.Key()] != nil, held, "%d bytes", size)
	}
}

// A known snapshot is newer than one from an eventually consistent read, but not newer than one
// from a consistent read.
func TestKnownSnapshotsReplaceStaleReads(t *testing.T) {
	r := newRig(t)
	total := &usage.Total{Bucket: gpt("e"), Window: usage.Hourly, Start: usage.Hourly.Start(t0)}
	stored, newer := total.Key().Item(), total.Key().Item()
	newer["n"] = item.N(1)
	r.db.Store(stored)
	for consistent, want := range map[bool]item.Item{false: newer, true: stored} {
		got, err := r.agg.read(t.Context(), total, consistent, usage.Snapshots{Known: true, Current: newer})
		if err != nil || got.Sure != consistent || !item.EqualItems(got.Current, want) {
			t.Errorf("consistent %v: %+v, %v", consistent, got, err)
		}
	}
}

// laggard is a table that answers every second eventually consistent read with its contents at the
// last remember.
type laggard struct {
	store.Lister
	db, old *memdynamo.DB
	at      int64 // instant of the last remember
	rand    *rand.Rand
}

// lag makes the world's aggregator read from a laggard, and make one call at a time.
func (w *world) lag() *laggard {
	l := &laggard{Lister: w.db, db: w.db, rand: rand.New(rand.NewPCG(1, 3))}
	w.agg.store, w.agg.concurrency = l, 1
	l.remember()
	return l
}

func (l *laggard) remember() { l.old, l.at = l.db.Snapshot(), l.db.Now() }

func (l *laggard) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	if !consistent && l.rand.IntN(2) == 0 {
		return l.old.Read(ctx, true, keys...)
	}
	return l.Lister.Read(ctx, consistent, keys...)
}

func (l *laggard) List(ctx context.Context, q item.Query) (item.Page, error) {
	if !q.Consistent && l.rand.IntN(2) == 0 {
		return l.old.List(ctx, q)
	}
	return l.Lister.List(ctx, q)
}

// last returns the newest record.
func (r *rig) last() memdynamo.Change {
	all := r.since(0)
	return all[len(all)-1]
}

// countRecords makes the aggregator count records at once, without a fold.
func (r *rig) countRecords(changes ...memdynamo.Change) {
	r.t.Helper()
	check.MustEqual(r.t, r.handle(payloadOf(changes)), done)
}
