package limiter

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A write that meets a transaction is sent again, after pauses that double up to a bound, for as many rounds
// as a request may have.
func TestWritesThatMeetTransactionsAreSentAgain(t *testing.T) {
	for met, pauses := range map[int]time.Duration{0: 0, 1: 20, 2: 20 + 40, 3: 20 + 40 + 80,
		6: 20 + 40 + 80 + 160 + 200 + 200} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{})
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			left := met
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				if left--; left >= 0 {
					return false, memdynamo.Fail(store.Conflict)
				}
				return true, nil
			})
			w.db.ResetStats()
			longestPauses(t)
			begin := time.Now()
			must(t, l, asks(Costs{"rpm": 1}, rpm10))
			if took := time.Since(begin).Round(time.Millisecond); took != pauses*time.Millisecond ||
				w.db.Stats().Calls() != met+1 {
				t.Errorf("%d times: %s and %d calls, want %d ms", met, took, w.db.Stats().Calls(), pauses)
			}
		})
	}
}

// Who observes is told of every call that was throttled, and of which bucket: of a transaction, that of the
// first write, and of a read, that of the first key, if it is a bucket's. Other errors are not told.
func TestEveryThrottledCallIsReported(t *testing.T) {
	ns := "ns"
	bucket := layout.BucketKey(ns, acme, gpt, 3)
	write := item.Delete{Key: bucket}
	other := item.Delete{Key: layout.BucketKey(ns, "other", gpt, 0)}
	ctx := t.Context()
	for name, c := range map[string]struct {
		call func(store.Store) error
		want []string
	}{
		"write": {func(s store.Store) error { _, err := s.Write(ctx, write); return err }, []string{"acme/gpt-4"}},
		"transact": {func(s store.Store) error { return s.Transact(ctx, "t", []item.Write{write, other}) },
			[]string{"acme/gpt-4"}},
		"read": {func(s store.Store) error { _, err := s.Read(ctx, true, bucket, other.Key); return err },
			[]string{"acme/gpt-4"}},
		"read of configuration": {func(s store.Store) error {
			_, err := s.Read(ctx, true, layout.EntityKey(ns, acme))
			return err
		}, []string{"/"}},
		"read of nothing": {func(s store.Store) error { _, err := s.Read(ctx, true); return err }, nil},
	} {
		for _, kind := range []store.Kind{store.Throttled, store.Unavailable} {
			var told []string
			db := memdynamo.New(func() int64 { return 1 })
			db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(kind) })
			s := watched{db, func(_ context.Context, e Event) {
				if e.Kind != EventThrottled || store.KindOf(e.Err) != store.Throttled {
					t.Errorf("%s: told %+v", name, e)
				}
				told = append(told, fmt.Sprint(e.Entity, "/", e.Resource))
			}}
			err := c.call(s)
			if want := c.want; kind == store.Throttled && !slices.Equal(told, want) || kind != store.Throttled && told != nil {
				t.Errorf("%s, %v: told of %q, want %q", name, err, told, want)
			}
			if c.want != nil && store.KindOf(err) != kind {
				t.Errorf("%s: %v, want the error of the call", name, err)
			}
		}
	}
}
