package streams

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const t0 = 1_700_000_000_000 // 2023-11-14T22:13:20Z

// rig is a table in memory with its own clock, and an aggregator on it.
type rig struct {
	t       testing.TB
	now     int64
	db      *memdynamo.DB
	kept    *objects
	agg     *Aggregator
	metrics bytes.Buffer

	invoked atomic.Bool // an invocation is under way now
}

// invocation is the key of an invocation's context.
type invocation struct{}

// inContext is the table of a rig. It requires that calls have the context and deadline of their
// invocation. Log lines must have that context too, for the request id.
type inContext struct {
	store.Lister
	r *rig
}

func (r *rig) expects(ctx context.Context) {
	if r.invoked.Load() && ctx.Value(invocation{}) == nil {
		r.t.Error("a call does not have the context of its invocation")
	}
}

func (s inContext) of(ctx context.Context) store.Lister {
	s.r.expects(ctx)
	return s.Lister
}

type logInContext struct {
	slog.Handler
	r *rig
}

func (l logInContext) Handle(ctx context.Context, line slog.Record) error {
	l.r.expects(ctx)
	return l.Handler.Handle(ctx, line)
}

func (s inContext) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return s.of(ctx).Write(ctx, w)
}

func (s inContext) List(ctx context.Context, q item.Query) (item.Page, error) {
	return s.of(ctx).List(ctx, q)
}

func (s inContext) Transact(ctx context.Context, token string, writes []item.Write) error {
	return s.of(ctx).Transact(ctx, token, writes)
}

func (s inContext) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return s.of(ctx).Read(ctx, consistent, keys...)
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, now: t0, kept: &objects{}}
	r.db = memdynamo.New(func() int64 { return r.now })
	r.agg = &Aggregator{
		store: inContext{r.db, r},
		keep:  r.kept.keep,
		conf: usage.Config{Windows: []usage.Window{usage.Hourly, usage.Daily}, SnapshotTTLDays: 90, MaxShards: 32,
			Percents: map[string][]int{"": {50, 80, 100}}},
		concurrency: 4,
		now:         func() int64 { return r.now },
		function:    "aggregator",
		log:         slog.New(logInContext{slog.NewTextHandler(t.Output(), nil), r}),
		metrics:     &r.metrics,
	}
	return r
}

// objects stores malformed records in memory.
type objects struct {
	mu   sync.Mutex
	fail error
	keys []string
	body map[string][]byte
}

func (o *objects) keep(_ context.Context, x Object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return o.fail
	}
	if o.body == nil {
		o.body = map[string][]byte{}
	}
	o.keys = append(o.keys, x.Key)
	o.body[x.Key] = x.Body
	return nil
}

// fails makes the calls unavailable that hits selects.
func (r *rig) fails(hits func(op memdynamo.Op) bool) {
	r.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if hits(op) {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
}

// failing returns a hook for calls that all fail, with effect if they are applied.
func failing(applied bool, kind store.Kind) memdynamo.Hook {
	return func(memdynamo.Op) (bool, error) { return applied, memdynamo.Fail(kind) }
}

// watch calls see before each call.
func (r *rig) watch(see func(op memdynamo.Op)) {
	r.fails(func(op memdynamo.Op) bool { see(op); return false })
}

// during makes act happen while do is at its call with this number, and reports whether there was one.
func (r *rig) during(at int, do, act func()) (hit bool) {
	calls := 0
	r.watch(func(memdynamo.Op) {
		if calls++; calls == at {
			hit = true
			r.db.SetHook(nil)
			act()
		}
	})
	defer r.db.SetHook(nil)
	do()
	return hit
}

// gpt returns the bucket of an entity on the resource of the tests.
func gpt(entity string) usage.Bucket {
	return usage.Bucket{Namespace: "ns", Resource: "gpt", Entity: entity}
}

func limits() []bucket.Limit {
	return []bucket.Limit{
		{Name: "rpm", Capacity: 600_000, Amount: 600_000, Period: 60_000},
		{Name: "tpm", Capacity: 40_000_000, Amount: 40_000_000, Period: 60_000},
	}
}

// bucket returns a stored shard, or a full one if it does not exist.
func (r *rig) bucket(entity string, shard int) table.Shard {
	r.t.Helper()
	it := r.db.Item(layout.BucketKey("ns", entity, "gpt", shard))
	if it == nil {
		return table.Shard{Namespace: "ns", Entity: entity, Resource: "gpt", State: bucket.New(limits(), shard, 1, r.now)}
	}
	b, err := table.DecodeShard(it)
	check.Must(r.t, err)
	return b
}

// take changes a shard like a client's write.
func (r *rig) take(entity string, shard int, rpm, tpm int64) {
	r.t.Helper()
	b := r.bucket(entity, shard)
	b.State = b.State.Take([]int64{rpm * 1000, tpm * 1000, 1000})
	r.db.Store(b.Item())
}

// payload returns the payload of all changes so far.
func (r *rig) payload() []byte { return payloadOf(r.since(0)) }

// payloadIn returns the payload of all changes so far, at the end of a tumbling window or without one.
func (r *rig) payloadIn(tumbling bool) []byte {
	if tumbling {
		return windowed(records(r.since(0)), nil, true)
	}
	return r.payload()
}

func payloadOf(changes []memdynamo.Change) []byte { return streamtest.PayloadOf(records(changes)...) }

// logged makes the aggregator log to the returned buffer.
func (r *rig) logged() *bytes.Buffer {
	var log bytes.Buffer
	r.agg.log = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

// target returns the key of a call's first write.
func target(op memdynamo.Op) (k item.Key) {
	if len(op.Writes) > 0 {
		k = op.Writes[0].Target()
	}
	return k
}

// snapshot returns the snapshot of an entity in a part of time.
func (r *rig) snapshot(entity, part string) ledger.Snapshot {
	r.t.Helper()
	s, err := ledger.DecodeSnapshot(r.db.Item(layout.UsageKey("ns", entity, "gpt", part)))
	check.Must(r.t, err)
	return s
}

func records(changes []memdynamo.Change) []json.RawMessage {
	var out []json.RawMessage
	for _, c := range changes {
		out = append(out, streamtest.Record{Sequence: c.SequenceNumber(), Created: c.CreatedAt, Old: c.Old,
			New: c.New}.JSON())
	}
	return out
}

// since returns the changes after number seq, without those that the filter of the event source
// mapping drops.
func (r *rig) since(seq int64) []memdynamo.Change {
	return slices.DeleteFunc(r.db.Changes(seq), func(c memdynamo.Change) bool {
		return c.Key.SK != layout.SKBucketState
	})
}

// acknowledged returns how many changes of a batch the response reports as done.
func (r *rig) acknowledged(out []byte, batch []memdynamo.Change) int {
	r.t.Helper()
	var resp struct {
		BatchItemFailures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	check.Must(r.t, json.Unmarshal(out, &resp))
	if len(resp.BatchItemFailures) == 0 {
		return len(batch)
	}
	from := resp.BatchItemFailures[0].ItemIdentifier
	n := slices.IndexFunc(batch, func(c memdynamo.Change) bool { return sequence.Compare(c.SequenceNumber(), from) >= 0 })
	if n < 0 {
		r.t.Fatalf("resume at %q, which is not in the batch", from)
	}
	return n
}

func (r *rig) handle(payload []byte) string {
	r.t.Helper()
	r.invoked.Store(true)
	defer r.invoked.Store(false)
	out, err := r.agg.Invoke(context.WithValue(r.t.Context(), invocation{}, true), payload)
	check.Must(r.t, err)
	return string(out)
}

const done = `{"batchItemFailures":[]}`

func resumeAt(seq string) string {
	return `{"batchItemFailures":[{"itemIdentifier":"` + seq + `"}]}`
}

// usageOf returns the counts of all snapshots, by key and limit.
func (r *rig) usageOf() map[string]int64 {
	out := map[string]int64{}
	for _, it := range r.db.Items() {
		k := item.KeyOf(it)
		if !strings.HasPrefix(k.SK, "#USAGE#") {
			continue
		}
		s, err := ledger.DecodeSnapshot(it)
		check.Must(r.t, err)
		for _, limit := range []string{"rpm", "tpm"} {
			if n := s.Counts[limit]; n != 0 {
				out[k.PK+k.SK+" "+limit] = n
			}
		}
	}
	return out
}

// counted returns the expected contents of the snapshots: the growth of each counter in the stream,
// in the windows of its instant.
func (r *rig) counted() map[string]int64 {
	out := map[string]int64{}
	for _, c := range r.since(0) {
		if c.New == nil {
			continue // its counts stay
		}
		ns, entity, resource, _, _ := layout.ParseBucketPK(c.Key.PK)
		for _, limit := range []string{"rpm", "tpm"} {
			growth := usedTokens(r.t, c.New, limit) - usedTokens(r.t, c.Old, limit)
			for _, w := range r.agg.conf.Windows {
				k := layout.UsageKey(ns, entity, resource, w.Part(w.Start(c.CreatedAt)))
				out[k.PK+k.SK+" "+limit] += growth
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, n int64) bool { return n == 0 })
	return out
}

func usedTokens(t testing.TB, it item.Item, limit string) int64 {
	t.Helper()
	if it == nil {
		return 0
	}
	b, err := table.DecodeShard(it)
	check.Must(t, err)
	i := b.State.Index(limit)
	if i < 0 {
		return 0
	}
	return b.State.Slots[i].Used / 1000
}

// inexact returns the differences between snapshots and counters; none: "".
func (r *rig) inexact() string { return differences(r.usageOf(), r.counted()) }

// differences returns where the snapshots differ from the expected ones, including unexpected
// snapshots.
func differences(got, want map[string]int64) string {
	all := maps.Clone(got)
	maps.Copy(all, want)
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if _, ok := want[k]; !ok || got[k] != want[k] {
			fmt.Fprintf(&out, "%s: snapshot %d, want %d\n", k, got[k], want[k])
		}
	}
	return out.String()
}

// handedOn applies a fault to the writes of bucket b, which has the second record. It requires that
// exactly this record and the later ones are delivered again.
func (r *rig) handedOn(fault func(op memdynamo.Op) (bool, error)) {
	r.t.Helper()
	changes := r.since(0)
	r.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if strings.Contains(target(op).PK, "ENTITY#b") {
			return fault(op)
		}
		return true, nil
	})
	check.Equal(r.t, r.handle(payloadOf(changes)), resumeAt(changes[1].SequenceNumber()), "response")
	// The other writes are done nevertheless.
	if it := r.db.Item(layout.UsageKey("ns", "c", "gpt", "2023-11-14")); it == nil {
		r.t.Error("c is not counted")
	}
	r.db.SetHook(nil)
	check.Equal(r.t, r.handle(payloadOf(changes[1:])), done, "second response")
	check.Equal(r.t, r.inexact(), "")
}

var errDown = errors.New("down")
