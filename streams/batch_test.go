package streams

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/events/eventstest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

func TestWholeBatchDone(t *testing.T) {
	r := newRig(t)
	r.take("a", 0, 3, 500)
	r.take("a", 0, 2, -100)
	r.take("b", 0, 1, 1)
	check.Equal(t, r.handle(r.payload()), done, "response")
	check.Equal(t, r.inexact(), "")
	check.Equal(t, r.snapshot("a", aDay).Counts["rpm"], 5, "in the day")
	if s := r.db.Stats(); s.Calls() != 8 || s.Updates != 4 {
		t.Errorf("%+v for two entities and two windows, want 4 updates, and for each day a read and a query", s)
	}
}

// A stream that is disabled and enabled again starts its sequence numbers again. New usage is not
// mistaken for counted usage, and late records of the old stream are recognized.
func TestUsageIsExactAcrossStreams(t *testing.T) {
	r := newRig(t)
	payload := func(label string, base int, changes []memdynamo.Change) []byte {
		var all []json.RawMessage
		for i, c := range changes {
			all = append(all, streamtest.Record{Sequence: strconv.Itoa(base + i), Created: c.CreatedAt, Old: c.Old, New: c.New,
				Label: label}.JSON())
		}
		return streamtest.PayloadOf(all...)
	}
	r.take("a", 0, 3, 500)
	r.take("a", 0, 2, 100)
	before := r.since(0)
	r.take("a", 0, 1, 7)
	first := payload("2023-11-01T09:00:00.123", 900, before)
	second := payload("2023-11-14T22:00:00.000", 10, r.since(before[len(before)-1].Seq))
	for i, p := range [][]byte{first, second, first, second} {
		check.Equal(t, r.handle(p), done, "delivery %d: response", i)
	}
	check.Equal(t, r.inexact(), "")
}

func TestFailedWriteIsReportedByItsFirstRecord(t *testing.T) {
	for _, kind := range []store.Kind{store.Unavailable, store.Throttled, store.Conflict, store.Unknown} {
		synctest.Test(t, func(t *testing.T) { // between attempts it pauses
			r := newRig(t)
			for _, e := range []string{"a", "b", "c", "b"} {
				r.take(e, 0, 1, 1)
			}
			r.handedOn(failing(false, kind))
		})
	}
}

// Work begins in the order of its records. After the deadline, finished work is not delivered
// again.
func TestDeadlineIsReportedAsNotDone(t *testing.T) {
	var r *rig
	var changes []memdynamo.Change
	for call, n := range map[int]int{2: 0, 4: 0, 5: 1, 9: 2} { // four calls for each bucket
		r = newRig(t)
		r.agg.concurrency = 1
		for _, e := range []string{"c", "b", "a"} {
			r.take(e, 0, 1, 1)
		}
		changes = r.since(0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		r.watch(func(memdynamo.Op) {
			if calls++; calls == call {
				cancel() // and loses the answer of this call
			}
		})
		out, err := r.agg.Invoke(ctx, payloadOf(changes))
		check.Must(t, err, "at call %d", call)
		check.Equal(t, string(out), resumeAt(changes[n].SequenceNumber()), "at call %d", call)
	}
	past, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	r.db.SetHook(nil)
	r.db.ResetStats()
	out, err := r.agg.Invoke(past, payloadOf(changes))
	check.Must(t, err, "after the deadline")
	check.Equal(t, string(out), resumeAt(changes[0].SequenceNumber()), "after the deadline")
	check.Equal(t, r.db.Stats().Calls(), 0, "calls after the deadline")
}

// W18, W26: a malformed record is stored, counted and skipped; it blocks nothing else.
func TestMalformedRecordIsKeptAndSkipped(t *testing.T) {
	r := newRig(t)
	r.take("a", 0, 1, 1)
	r.take("b", 0, 1, 1)
	recs := records(r.since(0))
	bad := json.RawMessage(strings.ReplaceAll(string(recs[0]), `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"1000.5"}`))
	payload := streamtest.PayloadOf(bad, recs[1])
	for range 2 {
		check.MustEqual(t, r.handle(payload), done, "response")
	}
	if len(r.kept.keys) != 2 || r.kept.keys[0] != r.kept.keys[1] ||
		!strings.HasPrefix(r.kept.keys[0], "malformed/year=2023/month=11/day=14/") {
		t.Fatalf("objects %q", r.kept.keys)
	}
	z, err := gzip.NewReader(bytes.NewReader(r.kept.body[r.kept.keys[0]]))
	check.Must(t, err)
	line, err := io.ReadAll(z)
	var kept struct {
		Reason string          `json:"reason"`
		Record json.RawMessage `json:"record"`
	}
	if err != nil || json.Unmarshal(line, &kept) != nil || string(kept.Record) != string(bad) ||
		!strings.Contains(kept.Reason, "rpm") {
		t.Errorf("kept %s, %v", line, err)
	}
	check.Equal(t, r.snapshot("b", aDay).Counts["rpm"], 1, "b")
	first, _, _ := strings.Cut(r.metrics.String(), "\n")
	r.wants(first, `"Malformed":1`, `"Records":2`)
}

func TestUnkeptMalformedRecordsAreNotDone(t *testing.T) {
	r := newRig(t)
	r.take("a", 0, 1, 1)
	r.take("b", 0, 1, 1)
	recs, changes := records(r.since(0)), r.since(0)
	bad := json.RawMessage(strings.Replace(string(recs[1]), `"rf":{"N"`, `"rf":{"X"`, 1))
	payload := streamtest.PayloadOf(recs[0], bad)
	want := resumeAt(changes[1].SequenceNumber())
	r.kept.fail = errDown
	check.Equal(t, r.handle(payload), want, "it is not stored")
	log := r.logged()
	r.agg.keep = nil
	check.Equal(t, r.handle(payload), want, "nowhere")
	if !strings.Contains(log.String(), errNowhere.Error()) {
		t.Errorf("nowhere: logged %s", log)
	}
	// Without a sequence number, the whole batch must be repeated.
	check.Equal(t, r.handle(streamtest.PayloadOf(recs[0], json.RawMessage(`{}`))), resumeAt(""), "no sequence number")
}

func TestGarbageIsAnError(t *testing.T) {
	r := newRig(t)
	for _, p := range []string{"", "{", `{"Records":1}`, `[]`} {
		if out, err := r.agg.Invoke(t.Context(), []byte(p)); err == nil {
			t.Errorf("%q: %s", p, out)
		}
	}
}

func TestEmptyBatch(t *testing.T) {
	r := newRig(t)
	check.Equal(t, r.handle([]byte(`{"Records":[]}`)), done)
	check.Equal(t, r.db.Stats().Calls(), 0, "calls")
}

// A Keep function that never answers does not use up the time of later writes.
func TestKeepingAMalformedRecordIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var bound time.Duration
		r.agg.keep = func(ctx context.Context, _ Object) error {
			if end, ok := ctx.Deadline(); ok {
				bound = time.Until(end)
			}
			return errDown
		}
		r.handle(streamtest.PayloadOf(json.RawMessage(`{}`)))
		check.Equal(t, bound, callTimeout, "keeping is bounded by")
	})
}

// TestSampleEvents sends every aggregator-*.json of the events folder through the aggregator, on a
// table with the newest images of the event, one second after its last record. It compares the
// response, the metrics and every write with the golden outcome.
func TestSampleEvents(t *testing.T) {
	before := store.SetRandom(func() uint64 { return 3 })
	t.Cleanup(func() { store.SetRandom(before) })
	eventstest.Run(t, "../events", "aggregator", outcomeOf)
}

func outcomeOf(t *testing.T, payload []byte) string {
	t.Helper()
	r := newRig(t)
	r.agg.concurrency = 1
	batch, err := stream.Decode(payload)
	check.Must(t, err)
	for _, c := range batch.Changes {
		r.db.Store(c.New.Item())
		r.now = max(r.now, c.Created+1000)
	}
	var writes strings.Builder
	r.watch(func(op memdynamo.Op) {
		fmt.Fprintf(&writes, "\n%s\n", op.Name)
		for _, w := range op.Writes {
			writes.WriteString(show(w))
		}
	})
	response := r.handle(payload)
	var m map[string]any
	check.Must(t, json.Unmarshal(r.metrics.Bytes(), &m), "metric line %q", r.metrics.Bytes())
	var out strings.Builder
	fmt.Fprintf(&out, "response %s\nmetrics ", response)
	for _, name := range []string{"Records", "Changes", "Malformed", "Ignored", "Totals", "Writes", "WritesFailed",
		"Snapshots", "Refills", "ShardSteps", "Lifetimes", "Kept", "NotBegun", "IteratorAgeMs"} {
		fmt.Fprintf(&out, " %s=%v", name, m[name])
	}
	out.WriteString("\n" + writes.String())
	for _, k := range r.kept.keys {
		fmt.Fprintf(&out, "\nkept %s\n", k)
	}
	return out.String()
}

var alias = regexp.MustCompile(`[#:][0-9]+`)

// show formats a write as it is sent, with aliases replaced.
func show(w item.Write) string {
	k := w.Target()
	switch w := w.(type) {
	case item.Update:
		in := w.Input("t")
		fill := func(expression *string) string {
			if expression == nil {
				return ""
			}
			return alias.ReplaceAllStringFunc(*expression, func(a string) string {
				if name, ok := in.ExpressionAttributeNames[a]; ok {
					return name
				}
				return value(in.ExpressionAttributeValues[a])
			})
		}
		return fmt.Sprintf("  update %s %s\n    %s\n    if %s\n", k.PK, k.SK, fill(in.UpdateExpression),
			fill(in.ConditionExpression))
	case item.Put:
		it, err := json.Marshal(json.RawMessage(itemtest.JSON(w.Item)))
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf("  put %s %s\n    %s\n", k.PK, k.SK, it)
	}
	return fmt.Sprintf("  %T %s %s\n", w, k.PK, k.SK)
}

func value(v item.Value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "'" + v.Value + "'"
	case *types.AttributeValueMemberN:
		return v.Value
	}
	b, err := json.Marshal(json.RawMessage(itemtest.JSON(item.Item{"": v})))
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(b), `{"":`), "}")
}

// sink is a store that accepts every write and stores nothing.
type sink struct{ store.Lister }

func (sink) Write(context.Context, item.Write) (item.Item, error) { return nil, nil }
func (sink) Transact(context.Context, string, []item.Write) error { return nil }
func (sink) Read(_ context.Context, _ bool, keys ...item.Key) ([]item.Item, error) {
	return make([]item.Item, len(keys)), nil
}
func (sink) List(context.Context, item.Query) (item.Page, error) { return item.Page{}, nil }

const memoryPayload = "AGGREGATOR_MEMORY_TEST_PAYLOAD"

// TestMemoryOfALargeBatch measures the peak memory of a process, including its binary, that handles
// a batch of 10,000 records. The batch is four times as large as Lambda's limit of 6 MB.
func TestMemoryOfALargeBatch(t *testing.T) {
	if raceDetector {
		t.Log("not measured: the race detector's shadow memory would be in the figure")
		return
	}
	const most, n, buckets = 96 << 20, 10_000, 2_000
	payload := filepath.Join(t.TempDir(), "payload.json")
	check.Must(t, os.WriteFile(payload, largeBatch(t, n, buckets), 0o600))
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryOfOneProcess$", "-test.v")
	cmd.Env = append(os.Environ(), memoryPayload+"="+payload)
	out, err := cmd.CombinedOutput()
	check.Must(t, err, "%s", out)
	_, after, _ := strings.Cut(string(out), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after + " x")[0])
	check.Must(t, err, "no peak in %s", out)
	info, err := os.Stat(payload)
	check.Must(t, err)
	t.Logf("%d records, %.1f MB: peak of the process %.1f MB", n, float64(info.Size())/1e6, float64(kb)*1024/1e6)
	if kb*1024 > most {
		t.Errorf("peak %d bytes, want at most %d", kb*1024, most)
	}
}

func largeBatch(t *testing.T, n, buckets int) []byte {
	const tenant, sequence = "tenant-00000", "4421584500000000000000000001"
	r := newRig(t)
	b := r.bucket(tenant+":api-key@example.com", 0)
	old := b.Item()
	b.State = b.State.Take([]int64{1000, 350_000, 1000})
	one := string(streamtest.Record{Sequence: sequence, Created: t0, Old: old, New: b.Item()}.JSON())
	recs := make([]json.RawMessage, 0, n)
	for i := range n {
		edit := strings.NewReplacer(tenant, fmt.Sprintf("tenant-%05d", i%buckets), sequence,
			fmt.Sprintf("442158450000000000%010d", i))
		recs = append(recs, json.RawMessage(edit.Replace(one)))
	}
	return streamtest.PayloadOf(recs...)
}

// TestMemoryOfOneProcess is the measured process.
func TestMemoryOfOneProcess(t *testing.T) {
	path := os.Getenv(memoryPayload)
	if path == "" {
		return // only TestMemoryOfALargeBatch runs it
	}
	debug.SetMemoryLimit(72 << 20) // like the function
	payload, err := os.ReadFile(path)
	check.Must(t, err)
	agg := &Aggregator{
		store: sink{}, concurrency: 16, function: "aggregator", log: slog.New(slog.DiscardHandler), metrics: io.Discard,
		now:  func() int64 { return time.Now().UnixMilli() },
		conf: usage.Config{Windows: []usage.Window{usage.Hourly, usage.Daily}, SnapshotTTLDays: 90, MaxShards: 32},
	}
	out, err := agg.Invoke(t.Context(), payload)
	check.Must(t, err)
	check.MustEqual(t, string(out), done)
	status, err := os.ReadFile("/proc/self/status")
	check.Must(t, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println("VmHWM:", strings.Fields(peak)[0])
}
