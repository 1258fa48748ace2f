package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// bucket is a bucket in memory.
type bucket map[string][]byte

func (b bucket) Keys(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(b)) {
			if strings.HasPrefix(key, prefix) && !yield(key, nil) {
				return
			}
		}
	}
}

func (b bucket) Get(_ context.Context, key string) ([]byte, error) {
	if b[key] == nil {
		return nil, errors.New("no such key")
	}
	return b[key], nil
}

func (b bucket) Delete(_ context.Context, key string) error {
	delete(b, key)
	return nil
}

// functions counts usage like the aggregator, one delivery after the other.
type functions struct {
	t         *testing.T
	db        *memdynamo.DB
	answers   []string // returned first, without an effect
	malformed int
	err       error
	delivered []int // the number of records in each delivery
}

func (f *functions) Of(arn string) (Function, bool) {
	switch {
	case strings.HasSuffix(arn, ":aggregator"):
		return Aggregator, true
	case strings.HasSuffix(arn, ":archiver"):
		return Archiver, true
	}
	return "", false
}

func (f *functions) Invoke(ctx context.Context, _ Function, payload []byte) ([]byte, int, error) {
	var p struct{ Records []json.RawMessage }
	check.NoError(f.t, json.Unmarshal(payload, &p))
	f.delivered = append(f.delivered, len(p.Records))
	if f.err != nil {
		return nil, -1, f.err
	}
	if len(f.answers) > 0 {
		answer := f.answers[0]
		f.answers = f.answers[1:]
		return []byte(answer), f.malformed, nil
	}
	f.count(ctx, payload)
	return []byte(`{"batchItemFailures":[]}`), f.malformed, nil
}

func (f *functions) count(ctx context.Context, payload []byte) {
	batch, err := stream.Decode(payload)
	check.NoError(f.t, err)
	for _, total := range usage.AllTotals(usage.Fold(batch.Changes), usage.Kinds(windows)[0]) {
		items, err := f.db.Read(ctx, true, total.Key())
		check.NoError(f.t, err)
		total.NotesRead = true
		step := total.Next(usage.Snapshots{Known: true, Current: items[0], PreviousKnown: true})
		if step.Action != usage.Add {
			continue
		}
		check.NoError(f.t, check.Err(f.db.Write(ctx, step.Update)))
	}
}

var windows = []usage.Window{usage.Hourly, usage.Daily}

func event(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "events", name))
	check.Must(t, err)
	return b
}

// records returns a part of a payload's records as a payload.
func records(t *testing.T, payload []byte, from, to int) []byte {
	t.Helper()
	var p struct{ Records []json.RawMessage }
	check.Must(t, json.Unmarshal(payload, &p))
	p.Records = p.Records[from:to]
	b, err := json.Marshal(p)
	check.Must(t, err)
	return b
}

func given(t *testing.T, function string, payload []byte) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"requestContext": map[string]any{"functionArn": "arn:aws:lambda:x:1:function:" + function,
			"condition": "RetryAttemptsExhausted"},
		"timestamp": "2026-01-01T00:00:00.000Z", "payload": string(payload), "version": "1.0",
	})
	check.Must(t, err)
	return b
}

const key = BatchPrefix + "uuid/shard/2026/01/01/batch"

func rig(t *testing.T) (*Replayer, bucket, *functions) {
	f := &functions{t: t, db: memdynamo.New(func() int64 { return 0 })}
	b := bucket{key: given(t, "aggregator", event(t, "aggregator-several-entities.json"))}
	return &Replayer{Objects: b, Malformed: Aggregator, Functions: f, Table: f.db, Windows: windows}, b, f
}

// The sample has ten acquires, one per request. Old images show eight more in between.
func TestBatchIsDeliveredAndDeleted(t *testing.T) {
	r, b, f := rig(t)
	seen := r.Inspect(t.Context(), key)
	if seen.Key != key || seen.Outcome != Looked || seen.Batch.Records != 10 ||
		seen.Usage.ToCount["rpm hourly"] != 18 || len(b) != 1 {
		t.Fatalf("%+v", seen)
	}
	if got := r.Replay(t.Context(), key); got.Outcome != Done || len(b) != 0 || len(f.delivered) != 1 {
		t.Errorf("%+v, objects %v, deliveries %v", got, b, f.delivered)
	}
	b[key] = given(t, "aggregator", event(t, "aggregator-several-entities.json"))
	again := r.Replay(t.Context(), key)
	if again.Outcome != Done || len(again.Usage.ToCount) != 0 {
		t.Errorf("again: %+v", again)
	}
}

// If a part was counted before the batch was given up, that is known exactly. What lies behind a
// later mark is not.
func TestCountedPartsAreKnownExactly(t *testing.T) {
	r, _, f := rig(t)
	payload := event(t, "aggregator-several-entities.json")
	f.count(t.Context(), records(t, payload, 0, 6)) // two of tenants 0 and 1, one of 2 and 3
	seen := r.Inspect(t.Context(), key)
	if seen.Usage.ToCount["rpm hourly"] != 10 || seen.Usage.Counted["rpm hourly"] != 8 || seen.Usage.Behind != nil {
		t.Errorf("half counted: %+v", seen.Usage)
	}

	r, b, f := rig(t)
	b[key] = given(t, "aggregator", records(t, payload, 0, 4))
	f.count(t.Context(), records(t, payload, 8, 9)) // tenant 0, later
	seen = r.Inspect(t.Context(), key)
	if seen.Usage.ToCount["rpm hourly"] != 3 || len(seen.Usage.Behind) != 1 {
		t.Fatalf("behind: %+v", seen.Usage)
	}
	const want = "kQ3xZp9LmNa/tenant-00 on openai/gpt-4, hourly from 2023-11-14T22:00:00Z: " +
		"at most rpm 1, tpm 200 of 1 records"
	check.Equal(t, seen.Usage.Behind[0], want)
	if got := r.Replay(t.Context(), key); got.Outcome != Done || len(got.Usage.Behind) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestDeliveryContinuesFromUnfinishedRecords(t *testing.T) {
	r, b, f := rig(t)
	f.answers = []string{
		`{"batchItemFailures":[{"itemIdentifier":"4421584500000000017450439198"}]}`,
		`{"batchItemFailures":[{"itemIdentifier":""}]}`,
	}
	if got := r.Replay(t.Context(), key); got.Outcome != Done || !slices.Equal(f.delivered, []int{10, 7, 7}) ||
		len(b) != 0 {
		t.Errorf("%+v, deliveries %v", got, f.delivered)
	}
}

func TestFailedDeliveriesKeepTheObject(t *testing.T) {
	again := slices.Repeat([]string{`{"batchItemFailures":[{"itemIdentifier":"4421584500000000017450439198"}]}`}, 9)
	for _, c := range []struct {
		change func(*Replayer, *functions)
		want   string
	}{
		{func(_ *Replayer, f *functions) { f.answers = again },
			`the aggregator has 5 times not done all of it; it goes on at sequence number "4421584500000000017450439198"`},
		{func(_ *Replayer, f *functions) { f.err = errors.New("timed out") }, "invoke the aggregator: timed out"},
		{func(_ *Replayer, f *functions) { f.answers = []string{`{}`} }, `answer "{}" is no partial batch response`},
		{func(_ *Replayer, f *functions) { f.answers = []string{`null`} }, `answer "null" is no partial batch response`},
		{func(_ *Replayer, f *functions) { f.answers = []string{`x`} },
			`answer "x" is no partial batch response` + "\ninvalid character 'x' looking for beginning of value"},
		{func(_ *Replayer, f *functions) {
			f.answers = []string{`{"batchItemFailures":[{"itemIdentifier":"7"}]}`}
		},
			`the answer names sequence number "7", which is none of the batch`},
		{func(r *Replayer, _ *functions) { r.Table = unreadable{} }, "usage snapshots: the table is gone"},
		{func(r *Replayer, _ *functions) { r.Objects = undeletable{r.Objects.(bucket)} }, "denied"},
	} {
		r, b, f := rig(t)
		c.change(r, f)
		if got := r.Replay(t.Context(), key); got.Outcome != Left || got.Err == nil || got.Err.Error() != c.want ||
			len(b) != 1 || len(f.delivered) > attempts {
			t.Errorf("%+v, deliveries %v, want %s", got, f.delivered, c.want)
		}
	}
	r, _, f := rig(t)
	got := r.Replay(t.Context(), BatchPrefix+"gone")
	if got.Outcome != Left || got.Err == nil || got.Err.Error() != "no such key" || f.delivered != nil {
		t.Errorf("a deleted object: %+v", got)
	}
}

// Objects of the archiver count nothing, so the table is not read.
func TestBatchesOfTheArchiverReadNoTable(t *testing.T) {
	r, b, f := rig(t)
	r.Table, f.answers = unreadable{}, []string{`{"batchItemFailures":[]}`}
	b[key] = given(t, "archiver", event(t, "archiver-expired.json"))
	if got := r.Replay(t.Context(), key); got.Outcome != Done || got.Usage.ToCount != nil {
		t.Errorf("%+v", got)
	}
}

// Counted usage is read consistently.
func TestSnapshotsAreReadConsistently(t *testing.T) {
	r, _, f := rig(t)
	r.Table = readers(func(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
		if !consistent {
			t.Error("an eventually consistent read")
		}
		return f.db.Read(ctx, consistent, keys...)
	})
	if got := r.Inspect(t.Context(), key); got.Outcome != Looked || len(got.Usage.ToCount) == 0 {
		t.Errorf("%+v", got)
	}
}

type readers func(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error)

func (f readers) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return f(ctx, consistent, keys...)
}

type unreadable struct{}

func (unreadable) Read(context.Context, bool, ...item.Key) ([]item.Item, error) {
	return nil, errors.New("the table is gone")
}

// The number of malformed records in a function's answer concerns objects of one malformed record.
// A batch may have malformed records too: they are set aside again.
func TestBatchesMayHaveMalformedRecords(t *testing.T) {
	r, b, f := rig(t)
	f.malformed = 1
	b[key] = given(t, "aggregator", event(t, "aggregator-malformed.json"))
	if got := r.Replay(t.Context(), key); got.Outcome != Done || len(b) != 0 {
		t.Errorf("%+v", got)
	}
}

// A failed listing reports its error last. A listing ends when the caller stops.
func TestListingsReportErrorsLast(t *testing.T) {
	r, b, _ := rig(t)
	r.Objects = unlisted{b}
	var said []string
	for key, err := range r.Keys(t.Context()) {
		said = append(said, fmt.Sprintf("%s %v", key, err))
	}
	if want := []string{key + " <nil>", " throttled"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	r, b, _ = rig(t)
	b[key+"2"] = nil
	n := 0
	for range r.Keys(t.Context()) {
		n++
		break
	}
	check.Equal(t, n, 1, "keys after the first")
}

// unlisted fails after the batches.
type unlisted struct{ bucket }

func (u unlisted) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range u.bucket.Keys(ctx, prefix) {
			if !yield(key, err) {
				return
			}
		}
		yield("", errors.New("throttled"))
	}
}

func zipped(t *testing.T, record string) []byte {
	t.Helper()
	return gzipped(t, `{"reason":"it was too new","sequence_number":"1","record":`+record+"}\n")
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	fmt.Fprint(w, text)
	check.Must(t, w.Close())
	return out.Bytes()
}

// A malformed record is delivered only if both this release and the deployed one can decode it.
// Otherwise the function would set it aside again, and it would be deleted.
func TestOnlyDecodableRecordsAreDelivered(t *testing.T) {
	const set = "malformed/year=2026/month=01/day=01/1-hash.jsonl.gz"
	good := func(name string) string {
		var p struct{ Records []json.RawMessage }
		check.Must(t, json.Unmarshal(event(t, name), &p))
		return string(p.Records[min(1, len(p.Records)-1)])
	}
	for _, c := range []struct {
		name, record string
		function     Function
		malformed    int
		want         Outcome
	}{
		{"decodable now", good("aggregator-acquire.json"), Aggregator, 0, Done},
		{"archiver, decodable now", good("archiver-expired.json"), Archiver, 0, Done},
		{"deployed function is older", good("aggregator-acquire.json"), Aggregator, 1, Left},
		{"deployed function does not say", good("aggregator-acquire.json"), Aggregator, -1, Left},
		{"still malformed", good("archiver-malformed.json"), Archiver, 0, Still},
		{"still malformed, aggregator", good("aggregator-malformed.json"), Aggregator, 0, Still},
		{"unreadable for the aggregator", good("aggregator-malformed.json"), Archiver, 0, Done},
		{"unreadable for the archiver", good("archiver-malformed.json"), Aggregator, 0, Done},
		{"not a record", `{"dynamodb":7}`, Aggregator, 0, Still},
	} {
		r, b, f := rig(t)
		r.Malformed, f.malformed = c.function, c.malformed
		b[set] = zipped(t, c.record)
		got := r.Replay(t.Context(), set)
		if _, there := b[set]; got.Outcome != c.want || there == (c.want == Done) {
			t.Errorf("%s: %+v, still there %v", c.name, got, there)
		}
		check.Equal(t, got.Outcome == Done, got.Err == nil, "%s: %s, because of %v", c.name, got.Outcome, got.Err)
	}
	r, b, _ := rig(t)
	b[set] = []byte("no gzip")
	check.Equal(t, r.Replay(t.Context(), set).Outcome, Strange)
	var keys []string
	for key, err := range r.Keys(t.Context()) {
		check.Must(t, err)
		keys = append(keys, key)
	}
	check.Slices(t, keys, []string{key, set}, "keys")
}

// undeletable refuses deletions.
type undeletable struct{ bucket }

func (undeletable) Delete(context.Context, string) error { return errors.New("denied") }
