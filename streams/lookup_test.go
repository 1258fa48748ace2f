package streams

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// The snapshots of the others are read once eight buckets were found counted, and as many as were
// counted now: then most likely all of this is the second attempt.
func TestWhenSnapshotsAreLookedUp(t *testing.T) {
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
		read := false
		r.db.SetHook(func(op memdynamo.Op) (bool, error) {
			read = op.Consistent // what was written a moment ago must be seen
			return true, nil
		})
		if got := l.snapshots(t.Context(), bucket) != nil; got != c.want || read != c.want {
			t.Errorf("%d found, %d counted: looked up %v, consistently %v", c.found, c.wrote, got, read)
		}
	}
}

// Buckets that are looked up together take one call, although each has a snapshot of either hour.
func TestALookupIsOneCall(t *testing.T) {
	r := newRig(t)
	var due []*counting
	for i := range 2 * item.MaxReadKeys {
		first := usage.Part{Bucket: gpt(fmt.Sprint(i)), Runs: []usage.Run{{}}}
		second := first
		second.Start = time.Hour.Milliseconds()
		due = append(due, &counting{parts: []usage.Part{first, second}})
	}
	var calls []int
	r.db.SetHook(func(op memdynamo.Op) (bool, error) {
		calls = append(calls, len(op.Keys))
		return true, nil
	})
	l := newLookup(r.agg, due)
	l.found.Store(lookAfter)
	if l.snapshots(t.Context(), due[0]); !slices.Equal(calls, []int{item.MaxReadKeys}) {
		t.Errorf("calls of %v keys", calls)
	}
}

// What is known of a snapshot is newer than what a read finds that may be behind, but not than a consistent one.
func TestASnapshotThatIsKnown(t *testing.T) {
	r := newRig(t)
	total := &usage.Total{Bucket: gpt("e"), Window: usage.Hourly,
		Start: usage.Hourly.Start(t0)}
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
