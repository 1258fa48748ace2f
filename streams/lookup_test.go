package streams

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/memdb"
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
		bucket := &counting{parts: []usage.Part{{Namespace: "ns", Entity: "e", Resource: "gpt", Runs: []usage.Run{{}}}}}
		l := newLookup(r.agg, []*counting{bucket})
		for range c.found {
			l.learn(0)
		}
		for range c.wrote {
			l.learn(1)
		}
		read := false
		r.db.SetHook(func(op memdb.Op) (bool, error) {
			read = op.Consistent // what was written a moment ago must be seen
			return true, nil
		})
		if got := l.snapshots(t.Context(), bucket) != nil; got != c.want || read != c.want {
			t.Errorf("%d found, %d counted: looked up %v, consistently %v", c.found, c.wrote, got, read)
		}
	}
}
