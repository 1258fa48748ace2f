package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// A batch that needs every kind of job has the required ones first, in the order of their records,
// then the optional ones by kind. Each job has its kind, its bucket, and the record to resume at.
func TestRequiredJobsComeFirst(t *testing.T) {
	r := newRig(t)
	of := func(entity, what string) {
		b := r.bucket(entity, 0)
		switch what {
		case "hot":
			b.State.Slots[b.State.Index(bucket.WCU)].Tokens = 999
		case "low":
			b.State = b.State.Take([]int64{500_000, 0, 0})
		case "brief":
			b.TTL = t0/1000 + 1
		case "quota":
			b.State = bucket.New([]bucket.Limit{budget}, 0, 1, t0).Take([]int64{33_000, 0})
		}
		r.db.Store(b.Item())
		if what != "quota" {
			b.State = b.State.Take([]int64{60_000, 1000, 500})
			r.db.Store(b.Item())
		}
	}
	all := []string{"low", "brief", "hot", "quota", "low", "brief", "hot", "quota"}
	for i, what := range all {
		of(fmt.Sprint("e", 7-i), what) // not in order of name
	}
	recs := records(r.since(0))
	recs[0] = json.RawMessage(strings.ReplaceAll(string(recs[0]), `"b_rpm_tc":{"N":"`, `"b_rpm_tc":{"N":"x`))
	batch, err := stream.Decode(streamtest.PayloadOf(recs...))
	if err != nil || len(batch.Malformed) != 1 {
		t.Fatal(err, batch.Malformed)
	}
	histories := usage.Fold(batch.Changes)
	led := r.agg.newTally(t.Context(), batch, histories)
	var got []string
	for _, j := range r.agg.jobs(led, histories, usage.Decide(histories, t0+1500, r.agg.conf), batch.Malformed) {
		about := ""
		for _, a := range j.Attrs {
			if a.Key != "object" { // the key has a hash
				about += " " + a.Key + "=" + a.Value.String()
			}
		}
		record := 1 + slices.IndexFunc(r.since(0), func(c memdynamo.Change) bool { return c.SequenceNumber() == j.Resume })
		got = append(got, fmt.Sprintf("%s%s, record %d, required %v", j.What, about, record, j.Required))
	}
	want := []string{
		"malformed record, record 1, required true",
		"usage entity=e7 resource=gpt, record 2, required true",
		"usage entity=e6 resource=gpt, record 3, required true",
		"usage entity=e5 resource=gpt, record 5, required true",
		"usage entity=e4 resource=gpt, record 7, required true",
		"threshold entity=e4 resource=gpt, record 7, required true",
		"usage entity=e3 resource=gpt, record 8, required true",
		"usage entity=e2 resource=gpt, record 10, required true",
		"usage entity=e1 resource=gpt, record 12, required true",
		"usage entity=e0 resource=gpt, record 14, required true",
		"threshold entity=e0 resource=gpt, record 14, required true",
		"resharding entity=e5 resource=gpt, record 5, required false",
		"resharding entity=e1 resource=gpt, record 12, required false",
		"refill entity=e7 resource=gpt, record 2, required false",
		"refill entity=e3 resource=gpt, record 8, required false",
		"lifetime entity=e6 resource=gpt, record 3, required false",
		"lifetime entity=e2 resource=gpt, record 10, required false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	led.tumbling.On = true // uncounted usage is carried on, nothing else changes
	for i, j := range r.agg.jobs(led, histories, usage.Decide(histories, t0+1500, r.agg.conf), batch.Malformed) {
		if required := strings.HasSuffix(want[i], "true") && j.What != jobUsage; j.Required != required {
			t.Errorf("%s in a fold: required %v", want[i], j.Required)
		}
	}
}

// trouble makes one call in oneIn each fail, get slowed down by busy, lose its answer, or cancel
// the caller's context. Calls are concurrent, so the fault of a call depends on its kind and
// number, not on its time: a seed determines everything.
func trouble(seed uint64, oneIn int, busy store.Kind, cancel context.CancelFunc) memdynamo.Hook {
	var mu sync.Mutex
	met := map[string]uint64{}
	return func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		call := fmt.Sprint(op.Name, op.Keys, op.Query.PK, op.Query.From)
		for _, write := range op.Writes {
			call += fmt.Sprint(write.Target())
		}
		h := fnv.New64a()
		fmt.Fprint(h, call)
		met[call]++
		switch rand.New(rand.NewPCG(seed+met[call], h.Sum64())).IntN(oneIn) {
		case 0:
			return false, memdynamo.Fail(store.Unavailable)
		case 1:
			return false, memdynamo.Fail(store.Unknown)
		case 2:
			return true, memdynamo.Fail(store.Unknown)
		case 3:
			return false, memdynamo.Fail(busy)
		case 4:
			cancel()
		}
		return true, nil
	}
}

// If counting one bucket panics because of a bug, that bucket is not done. No other bucket is
// affected.
func TestPanicIsNotDone(t *testing.T) {
	r := newRig(t)
	for _, e := range []string{"a", "b", "c"} {
		r.take(e, 0, 1, 1)
	}
	log := r.logged()
	r.handedOn(func(memdynamo.Op) (bool, error) { panic("planted") })
	if want := `msg="usage not written" entity=b resource=gpt err="bug: planted"`; !strings.Contains(log.String(), want) {
		t.Errorf("no %s in %s", want, log.String())
	}
}

// A bucket that cannot be refilled or split does not block the stream, whatever the failure. A dead
// connection takes no longer than one call may. The failure is counted.
func TestFailedUpkeepDoesNotBlockTheStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		call   func(op memdynamo.Op) (bool, error)
		failed int // a repeated refill is done already, or refused: not a failure
	}{
		{"refused", failing(false, store.Unavailable), 2},
		{"answer lost", failing(true, store.Unknown), 1},
		{"hung", func(op memdynamo.Op) (bool, error) { <-op.Done; return false, nil }, 1},
		{"panic", func(memdynamo.Op) (bool, error) { panic("planted") }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.take("e", 0, 400, 39_000) // needs a refill
				hot := r.bucket("f", 0)     // needs a split
				hot.State.Slots[hot.State.Index(bucket.WCU)].Tokens = 999
				hot.State.RF = r.now
				r.db.Store(hot.Item())
				r.take("f", 0, 1, 1)
				payload := r.payload()
				r.now += 700
				var upkeep atomic.Int64 // calls are concurrent
				r.db.SetHook(func(op memdynamo.Op) (bool, error) {
					if !strings.Contains(target(op).PK, "BUCKET#") {
						return true, nil
					}
					upkeep.Add(1)
					return c.call(op)
				})
				begin := time.Now()
				got := r.handle(payload)
				if got != done || upkeep.Load() < 2 {
					t.Errorf("response %s after %d writes on buckets", got, upkeep.Load())
				}
				r.wants(r.metrics.String(), fmt.Sprintf(`"WritesFailed":%d`, c.failed))
				if took := time.Since(begin); took > 30*time.Second { // half of an invocation's time
					t.Errorf("took %v", took)
				}
				check.Equal(t, r.inexact(), "")
			})
		})
	}
}

// Whichever read fails, records that are reported as done are counted in hours and days. The next
// delivery counts the rest.
func TestAcknowledgedRecordsAreCountedWhicheverReadFails(t *testing.T) {
	failed := 0
	for at := 1; ; at++ {
		r := newRig(t)
		r.agg.concurrency, r.agg.log = 1, slog.New(slog.DiscardHandler)
		r.agg.conf.Windows = append(r.agg.conf.Windows, usage.Monthly)
		r.take("e", 0, 5, 100)
		check.MustEqual(t, r.handle(r.payload()), done)
		for i := range 4 {
			r.now += 1_500_000
			r.take("e", i%2, int64(i+1), 100)
		}
		batch := payloadOf(r.since(2)) // the second record is lost
		reads := 0
		r.fails(func(op memdynamo.Op) bool {
			if op.Name == memdynamo.BatchGetItem || op.Name == memdynamo.Query {
				reads++
				return reads == at
			}
			return false
		})
		if got := r.handle(batch); got == done && reads >= at {
			t.Errorf("read %d failed, and the response is %s", at, got)
		}
		r.db.SetHook(nil)
		check.MustEqual(t, r.handle(batch), done, "after read %d failed", at)
		check.MustEqual(t, r.inexact(), "", "after read %d failed", at)
		if reads < at {
			break
		}
		failed++
	}
	if failed < 3 {
		t.Errorf("only %d reads", failed)
	}
}
