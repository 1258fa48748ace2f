package streams

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// within handles the new records in an invocation of a tumbling window. It returns the state and
// the metric line.
func (r *rig) within(seen *int64, state []byte, final bool) (after []byte, metrics string) {
	r.t.Helper()
	changes := r.since(*seen)
	if len(changes) > 0 {
		*seen = changes[len(changes)-1].Seq
	}
	r.metrics.Reset()
	var response struct{ State json.RawMessage }
	check.Must(r.t, json.Unmarshal([]byte(r.handle(windowed(records(changes), state, final))), &response))
	return response.State, r.metrics.String()
}

func (r *rig) wants(metrics string, want ...string) {
	r.t.Helper()
	for _, w := range want {
		if !strings.Contains(metrics, w+",") && !strings.Contains(metrics, w+"}") {
			r.t.Errorf("no %s in %s", w, metrics)
		}
	}
}

// snapshots returns the number of snapshots of a kind, identified by the length of its part of the
// key.
func (r *rig) snapshots(part string) (n int) {
	for _, it := range r.db.Items() {
		if k := item.KeyOf(it).SK; strings.HasPrefix(k, "#USAGE#gpt#") && len(k) == len("#USAGE#gpt#"+part) {
			n++
		}
	}
	return n
}

const anHour, aDay = "2023-11-14T22:00:00Z", "2023-11-14"

// Usage waits for the end of the fold, and its lag is reported. Refills and splits do not wait. The
// usage of a finished hour is written immediately.
func TestOnlyUsageWaitsForTheFold(t *testing.T) {
	r, seen := newRig(t), int64(0)
	b := r.bucket("a", 0)
	for range 900 { // a hot partition
		b.State = b.State.Take([]int64{500, 500, 1000})
		r.db.Store(b.Item())
	}
	r.take("b", 0, 400, 1) // the batch would not fit once more
	r.now += 20_000
	state, metrics := r.within(&seen, nil, false)
	r.wants(metrics, `"Snapshots":0`, `"Pending":2`, `"Refills":1`, `"ShardSteps":1`, `"UsageLagMs":20000`, `"StateLost":0`,
		`"Name":"UsageLagMs","Unit":"Milliseconds"`) // a CloudWatch metric
	check.Equal(t, r.snapshots(anHour), 0, "snapshots before the end of the fold")

	r.now += 3_600_000
	r.take("c", 0, 1, 1) // in the next hour
	state, metrics = r.within(&seen, state, false)
	if n := r.snapshots(anHour); n < 2 {
		t.Errorf("%d snapshots of the finished hour", n)
	}
	if it := r.db.Item(item.Key{PK: "ns/ENTITY#c", SK: "#USAGE#gpt#2023-11-14T23:00:00Z"}); it != nil {
		t.Error("the unfinished hour was written too")
	}
	r.wants(metrics, `"Pending":1`, `"UsageLagMs":0`, `"Owed":2`)

	_, metrics = r.within(&seen, state, true)
	r.wants(metrics, `"Pending":0`, `"UsageLagMs":0`)
	check.Equal(t, r.snapshots("2023-11-14"), 0, "days before the hour ends")
	r.now += 2 * 3_600_000
	r.within(&seen, nil, true)
	check.Equal(t, r.inexact(), "")
	_, metrics = r.within(&seen, []byte(`{"zae":"none of ours"}`), false)
	r.wants(metrics, `"StateLost":1`)
}

// An hour is finished when any record of a batch is in a later hour, in any order.
func TestTheNewestRecordFinishesEarlierHours(t *testing.T) {
	r := newRig(t)
	r.take("a", 0, 1, 1)
	r.now += time.Hour.Milliseconds()
	r.take("b", 0, 1, 1)
	batch, err := stream.Decode(windowed(records(r.since(0)), nil, false))
	check.Must(t, err)
	for range 2 {
		led := r.agg.newTally(t.Context(), batch, usage.Fold(batch.Changes))
		if len(led.due) != 1 || led.due[0].parts[0].Entity != "a" || len(led.state.Parts) != 1 {
			t.Errorf("due is %+v, and %d are carried on", led.due, len(led.state.Parts))
		}
		slices.Reverse(batch.Changes)
	}
}

// Only an unreadable state is logged as ignored, with the reason.
func TestIgnoredStatesAreLogged(t *testing.T) {
	for state, want := range map[string]int{`{"zae":"none of ours"}`: 1, `{}`: 0, `{"other":"x"}`: 1} {
		r, seen := newRig(t), int64(0)
		log := r.logged()
		r.within(&seen, []byte(state), false)
		line := `level=WARN msg="state ignored" err="not a state of this aggregator`
		check.Equal(t, strings.Count(log.String(), line), want, "%s: times logged in %s", state, log)
	}
}

// A bucket that could not be counted does not count as found: no others are looked up for it, and
// nothing is owed.
func TestFailedBucketsAreNotFoundCounted(t *testing.T) {
	r := newRig(t)
	r.take("a", 0, 1, 1)
	batch, err := stream.Decode(windowed(records(r.since(0)), nil, true))
	check.Must(t, err)
	for fails, want := range map[bool][3]int64{true: {}, false: {0, 1, 1}} { // found, counted, owed
		led := r.agg.newTally(t.Context(), batch, usage.Fold(batch.Changes))
		r.fails(func(memdynamo.Op) bool { return fails })
		_, err := led.count(t.Context(), led.due[0])
		got := [3]int64{led.looked.found.Load(), led.looked.wrote.Load(), int64(len(led.owing.from) + len(led.owing.found))}
		if (err != nil) != fails || got != want || led.due[0].done == fails {
			t.Errorf("fails %v: %v, %v, done %v", fails, err, got, led.due[0].done)
		}
	}
}

// Uncounted usage is carried on in its place, so the next batch finds the part of its bucket.
func TestUncountedPartsAreCarriedInOrder(t *testing.T) {
	r, seen := newRig(t), int64(0)
	r.take("a", 0, 1, 1)
	state, _ := r.within(&seen, nil, false)
	r.now += time.Hour.Milliseconds()
	r.take("b", 0, 1, 1) // the hour of a is finished
	r.db.SetHook(func(op memdynamo.Op) (bool, error) { return len(op.Writes) == 0, memdynamo.Fail(store.Unavailable) })
	state, _ = r.within(&seen, state, false)
	r.db.SetHook(nil)
	carried, err := usage.ParseState(state)
	if err != nil || len(carried.Parts) != 2 || carried.Parts[0].Entity != "a" || carried.Parts[1].Entity != "b" {
		t.Errorf("%+v, %v, want a and b", carried.Parts, err)
	}
}

// A state close to Lambda's megabyte is written before the end of the fold.
func TestLargeStatesAreWrittenEarly(t *testing.T) {
	r, seen := newRig(t), int64(0)
	random := rand.New(rand.NewPCG(1, 2))
	name := func() (out string) {
		for len(out) < 480 {
			out += fmt.Sprintf("%016x", random.Uint64())
		}
		return out
	}
	const first = 800
	for range first {
		r.take(name(), 0, 1, 1)
	}
	state, metrics := r.within(&seen, nil, false)
	r.wants(metrics, `"Snapshots":0`, fmt.Sprintf(`"Pending":%d`, first), fmt.Sprintf(`"StateBytes":%d`, len(state)))
	for range 400 {
		r.take(name(), 0, 1, 1)
	}
	state, metrics = r.within(&seen, state, false)
	r.wants(metrics, `"Pending":0`)
	if n := r.snapshots(anHour); n != first+400 || len(state) > 100 {
		t.Errorf("%d snapshots, a state of %d bytes", n, len(state))
	}
}
