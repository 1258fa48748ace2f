//go:build deploy

package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shardRights removes one permission at a time from the aggregator, and invokes it with records of
// buckets that need a split, a correction or a merge. These are best effort, so the response says
// nothing: the test checks whether the second shard exists afterwards.
func (w *world) shardRights(t *testing.T) {
	db := store.NewDynamo(w.dynamodb(root), tableName)
	for action, c := range map[string]struct {
		zero, one int // counts in the table; 0: no such shard
		was       int // the count of shard 0 in the record
		mended    bool
	}{
		"dynamodb:PutItem":            {zero: 2, was: 1, mended: true}, // shard 1 is missing
		"dynamodb:ConditionCheckItem": {zero: 2, was: 1, mended: true},
		"dynamodb:DeleteItem":         {zero: 1, one: 2, was: 1}, // shard 1 should not exist
	} {
		entity := "no-" + strings.ToLower(strings.TrimPrefix(action, "dynamodb:"))
		now := time.Now().UnixMilli()
		shard := func(k, count int) item.Item {
			limits := []bucket.Limit{{Name: "rpm", Capacity: 1_000_000, Amount: 1_000_000, Period: 60_000}}
			s := bucket.New(limits, k, count, now)
			return table.Shard{Namespace: w.namespace(t), Entity: entity, Resource: "api", State: s}.Item()
		}
		role, policy := w.role(t, "Aggregator")
		w.limit(t, role, policy.without(action, ""))
		records := []streamtest.Record{{Sequence: "1", Created: now, Old: shard(0, c.was), New: shard(0, c.zero)}}
		if c.one > 0 {
			stray := shard(1, c.one)
			records = append(records, streamtest.Record{Sequence: "2", Created: now, Old: stray, New: stray})
		}
		for _, r := range slices.Backward(records) {
			check.Must(t, check.Err(db.Write(t.Context(), item.Put{Item: r.New})))
		}
		there := func() bool {
			w.invoke(t, "Aggregator", streamtest.Payload(records...))
			items, err := db.Read(t.Context(), true, layout.BucketKey(w.namespace(t), entity, "api", 1))
			check.Must(t, err)
			return items[0] != nil
		}
		if there() == c.mended {
			t.Errorf("Aggregator: %s is not needed", action)
		}
		w.limit(t, role, policy.without("", ""))
		check.Equal(t, there(), c.mended, "Aggregator: its role is not sufficient with %s", action)
	}
}

// catchUpRights ends a tumbling window, which the emulator never does, with and without the
// permission to read items by key. With it, longer windows catch up, and the cursor moves. It is
// best effort, so the response says nothing.
func (w *world) catchUpRights(t *testing.T) {
	db := store.NewDynamo(w.dynamodb(root), tableName)
	over := []byte(`{"Records":[],"window":{"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:01:00Z"},"state":{},` +
		`"isFinalInvokeForWindow":true,"isWindowTerminatedEarly":false}`)
	role, policy := w.role(t, "Aggregator")
	for _, action := range []string{"dynamodb:BatchGetItem", ""} {
		w.limit(t, role, policy.without(action, ""))
		w.invoke(t, "Aggregator", over)
		items, err := db.Read(t.Context(), true, ledger.OwedCursorKey())
		check.Must(t, err)
		check.Equal(t, ledger.DecodeOwedCursor(items[0]).Counted > 0, action == "",
			"Aggregator without %q: longer windows have caught up", action)
	}
}

// namespace returns the id of the namespace "default".
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(w.outputs["NamespaceIds"], "default=")
	if !found {
		t.Fatalf("namespaces %q", w.outputs["NamespaceIds"])
	}
	id, _, _ := strings.Cut(rest, ",")
	return id
}
