package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

type callInfo = fault.Call

// crashAt kills the aggregator at the n-th matching call, before or after the call takes effect.
// kills returns how often.
func (r *rig) crashAt(n int, applied bool, match func(callInfo) bool) (kills func() int) {
	var calls, killed atomic.Int64
	r.Proxy.Add(&fault.Rule{Skip: n - 1, Times: 1, Fault: fault.Fault{Forward: applied, Reset: true},
		Match: func(c callInfo) bool {
			if !match(c) {
				return false
			}
			if calls.Add(1) == int64(n) {
				killed.Add(int64(r.Functions[stack.Aggregator].Host.KillBusy()))
			}
			return true
		}})
	return func() int { return int(killed.Load()) }
}

// direct makes a test deliver payloads itself.
func direct(env ...string) func(*runtimeapi.Config, *eventsource.Config) {
	return func(host *runtimeapi.Config, m *eventsource.Config) {
		host.Environments = 1
		host.Env = append(host.Env, env...)
		m.Settings.Filters = []string{`{"eventName":["NOTHING"]}`}
	}
}

// isWrite reports whether a call is a write of the functions, which alone use their proxy.
func isWrite(c callInfo) bool {
	return c.Operation == "UpdateItem" || c.Operation == "PutItem" || c.Operation == "TransactWriteItems"
}

// batchOf is a fixed batch of its own namespace, with all kinds of work for the aggregator: usage
// in two hours, a refill, and a split to follow.
type batchOf struct {
	r         *rig
	namespace string
	images    map[string]table.Shard
	records   []streamtest.Record
}

// batchStart is in the last second of an hour.
const batchStart = 1_767_229_199_000 // 2026-01-01T00:59:59Z

func (r *rig) batch(namespace string) *batchOf {
	b := &batchOf{r: r, namespace: namespace, images: map[string]table.Shard{}}
	for i, take := range []struct {
		entity string
		tokens int64
		at     int64
	}{{"u", 5, 0}, {"dry", 90, 0}, {"u", 7, 0}, {"u", 11, 1000}, {"dry", 5, 1000}} {
		b.take(i, take.entity, take.tokens, batchStart+take.at)
	}
	b.double(50)
	for _, image := range b.images {
		r.put(image.Item())
	}
	return b
}

func (b *batchOf) take(i int, entity string, tokens, at int64) {
	old, known := b.images[entity]
	rec := streamtest.Record{Sequence: fmt.Sprint(100 + i), Created: at}
	if known {
		rec.Old = old.Item()
	} else {
		limits := clients.Stored(limiter.PerSecond("rpm", 100))
		old = table.Shard{Namespace: b.namespace, Entity: entity, Resource: "gpt",
			State: bucket.New(limits, 0, 1, batchStart)}
	}
	image := old
	image.State = old.State.Take([]int64{tokens * bucket.Milli, bucket.WCUPerWrite})
	rec.New = image.Item()
	b.images[entity] = image
	b.records = append(b.records, rec)
}

// double makes a bucket of two shards double its shard 0.
func (b *batchOf) double(sequence int) {
	limits := clients.Stored(limiter.PerSecond("rpm", 100))
	name := func(s bucket.State) table.Shard {
		return table.Shard{Namespace: b.namespace, Entity: "grown", Resource: "gpt", State: s}
	}
	zero, one := bucket.New(limits, 0, 1, batchStart).Split()
	keep, two := zero.Split()
	b.images["grown"], b.images["grown 1"], b.images["grown 2"] = name(keep), name(one), name(two)
	b.records = append(b.records,
		streamtest.Record{Sequence: fmt.Sprint(100 + sequence), Created: batchStart, Old: name(zero).Item(),
			New: name(keep).Item()})
}

// wrong returns how the table differs from the result of the batch.
func (b *batchOf) wrong() (out []string) {
	b.r.t.Helper()
	for _, w := range []struct {
		entity, part string
		tokens       int64
	}{
		{"u", "2026-01-01T00:00:00Z", 12}, {"u", "2026-01-01T01:00:00Z", 11}, {"u", "2026-01-01", 23},
		{"dry", "2026-01-01T00:00:00Z", 90}, {"dry", "2026-01-01T01:00:00Z", 5}, {"dry", "2026-01-01", 95},
	} {
		if got := b.counted(w.entity, w.part); got != w.tokens {
			out = append(out, fmt.Sprintf("snapshot of %s from %s is %d, want %d", w.entity, w.part, got, w.tokens))
		}
	}
	dry := b.stored("dry", 0).State
	if want := b.images["dry"].State.At(dry.RF); dry.RF == batchStart || dry.String() != want.String() {
		out = append(out, fmt.Sprintf("refilled to %v, want %v", dry, want))
	}
	var held int64
	for k := range 4 {
		s := b.stored("grown", k).State
		held += s.Slots[0].Tokens
		if s.Shards != 4 {
			out = append(out, fmt.Sprintf("shard %d has the count %d, want 4", k, s.Shards))
		}
	}
	if held != 100*bucket.Milli {
		out = append(out, fmt.Sprintf("the shards hold %d millitokens, want %d", held, 100*bucket.Milli))
	}
	return out
}

func (b *batchOf) counted(entity, part string) int64 {
	it := b.read(layout.UsageKey(b.namespace, entity, "gpt", part))
	if it == nil {
		return 0
	}
	s, err := ledger.DecodeSnapshot(it)
	check.Must(b.r.t, err)
	return s.Counts["rpm"]
}

func (b *batchOf) read(k item.Key) item.Item {
	b.r.t.Helper()
	items, err := b.r.direct.Read(b.r.t.Context(), true, k)
	check.Must(b.r.t, err)
	return items[0]
}

func (b *batchOf) stored(entity string, shard int) (out table.Shard) {
	b.r.t.Helper()
	it := b.read(layout.BucketKey(b.namespace, entity, "gpt", shard))
	if it == nil {
		return out
	}
	out, err := table.DecodeShard(it)
	check.Must(b.r.t, err)
	return out
}

// deliver delivers the records from position from. It returns the position to resume from; after a
// crash, that is from.
func (b *batchOf) deliver(from int) (next int) {
	b.r.t.Helper()
	result, err := b.r.Functions[stack.Aggregator].Host.Invoke(b.r.t.Context(), streamtest.Payload(b.records[from:]...))
	check.Must(b.r.t, err)
	if result.FunctionError != "" {
		return from
	}
	at, failed := resume(b.r.t, result.Payload)
	if !failed {
		return len(b.records)
	}
	for i, rec := range b.records[from:] {
		if rec.Sequence == at {
			return from + i
		}
	}
	b.r.t.Fatalf("resume at %q, which was not delivered", at)
	return 0
}

// resume reads a response like Lambda.
func resume(t testing.TB, response []byte) (sequence string, failed bool) {
	t.Helper()
	var r struct {
		BatchItemFailures []struct{ ItemIdentifier string } `json:"batchItemFailures"`
	}
	if err := json.Unmarshal(response, &r); err != nil || len(r.BatchItemFailures) > 1 {
		t.Fatalf("response %s: %v", response, err)
	}
	if len(r.BatchItemFailures) == 0 {
		return "", false
	}
	return r.BatchItemFailures[0].ItemIdentifier, true
}

// I5: the built function may die at any write, or the write may be refused or get no answer. After
// the repetitions the result is the same.
func TestBatchesAreExactUnderEveryFault(t *testing.T) {
	r := start(t, setup{aggregate: direct("WRITE_CONCURRENCY=1")})
	for _, mode := range []struct {
		name string
		hurt func(n int) func() int
	}{
		{"killed before", func(n int) func() int { return r.crashAt(n, false, isWrite) }},
		{"killed after the write", func(n int) func() int { return r.crashAt(n, true, isWrite) }},
		{"answer lost", func(n int) func() int {
			return r.Proxy.Add(&fault.Rule{Match: isWrite, Skip: n - 1, Times: 1, Fault: fault.AppliedThenReset()}).Hits
		}},
		{"this and all further writes fail", func(n int) func() int {
			return r.Proxy.Add(&fault.Rule{Match: isWrite, Skip: n - 1, Fault: fault.Failed()}).Hits
		}},
		{"this and all further writes are refused", func(n int) func() int {
			return r.Proxy.Add(&fault.Rule{Match: isWrite, Skip: n - 1, Fault: fault.Fault{Answer: &fault.Answer{
				Status: 400, Code: "AccessDeniedException", Message: "not authorized"}}}).Hits
		}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			writes, resumed := 0, 0
			for n := 1; ; n++ {
				if !long() && n > 4 {
					break
				}
				b := r.batch(fmt.Sprintf("%.6s%d%d", mode.name, len(mode.name), n))
				hits := mode.hurt(n)
				next := b.deliver(0)
				r.Proxy.Clear()
				if hits() == 0 {
					break // the batch has no such write
				}
				writes = n
				if next > 0 && next < len(b.records) {
					resumed++
				}
				for tries := 0; next < len(b.records); tries++ {
					if next = b.deliver(next); tries > 10 {
						t.Fatalf("write %d: the batch does not come to its end\n%s", n,
							r.Functions[stack.Aggregator].Tail())
					}
				}
				b.deliver(0) // and once more, completely
				for _, w := range b.wrong() {
					t.Errorf("write %d: %s", n, w)
				}
			}
			t.Logf("exact after trouble at each of %d writes; resumed within the batch %d times", writes, resumed)
			if writes < 4 {
				t.Errorf("only %d writes", writes)
			}
		})
	}
}

// D5: when the count of shard 0 grows, every other shard follows, whatever crashes on the way. At
// every instant the shares add up, and nothing is minted.
func TestShardCountReachesEveryShardAfterACrashAtEveryStep(t *testing.T) {
	crashed, steps := 0, 0
	r := start(t, setup{shards: 2})
	l := new(clients.Book)
	for at := 1; ; at++ {
		for _, applied := range []bool{false, true} {
			tn := tenant{entity: fmt.Sprintf("grow-%d-%v", at, applied), resource: "gpt", limits: hot.limits}
			kill := r.crashAt(at, applied, func(c callInfo) bool { return c.Operation == "TransactWriteItems" })
			r.grow(tn, 3)
			r.rest()
			r.Proxy.Clear()
			crashed += kill()
			for k := range 8 {
				b, ok := r.shard(tn.entity, tn.resource, k)
				if !ok || b.State.Shards != 8 {
					t.Fatalf("crash at step %d (applied: %v): shard %d is %v", at, applied, k, b.State)
				}
			}
			if applied {
				steps = at
			}
		}
		if crashed < 2*at || !long() && at == 2 {
			break // no more steps
		}
	}
	o := r.observe(l)
	for _, c := range []promise{writesConserve, sharesAddUp} {
		broken, figures := c.find(o)
		t.Logf("%-24s %s", c.name, figures)
		for _, b := range first(broken, 5) {
			t.Errorf("%s: %s", c.name, b)
		}
	}
	t.Logf("crashed=%d times, at each of the first %d steps", crashed, steps)
	if crashed < 4 {
		t.Error("too few crashes")
	}
}

// grow stores a bucket and doubles its shard 0 several times, like clients with a hot bucket. The
// other shards are left to the aggregator.
func (r *rig) grow(tn tenant, times int) {
	r.t.Helper()
	r.put(r.seeded(tn, 0).Item())
	for range times {
		zero, _ := r.shard(tn.entity, tn.resource, 0)
		check.Must(r.t, r.direct.Transact(r.t.Context(), rand.Text(), table.Split(zero, time.Now().UnixMilli())))
	}
}
