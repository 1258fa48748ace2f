package bench

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// wire is a DynamoDB client that counts the calls, and keeps the last update.
type wire struct {
	limiter.DynamoDB
	calls  atomic.Int64
	last   *dynamodb.UpdateItemInput
	answer *dynamodb.UpdateItemOutput // if set, the immediate answer to every update
}

func (w *wire) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	w.calls.Add(1)
	if w.answer != nil {
		return w.answer, nil
	}
	w.last = in
	return w.DynamoDB.UpdateItem(ctx, in, opts...)
}

func (w *wire) PutItem(ctx context.Context, in *dynamodb.PutItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	w.calls.Add(1)
	return w.DynamoDB.PutItem(ctx, in, opts...)
}

func (w *wire) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	w.calls.Add(1)
	return w.DynamoDB.TransactWriteItems(ctx, in, opts...)
}

func (w *wire) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	w.calls.Add(1)
	return w.DynamoDB.BatchGetItem(ctx, in, opts...)
}

// bare is a table without a proxy.
type bare struct {
	db    *dynamodb.Client
	table string
}

func newBare(b testing.TB) bare {
	e := engine.ForTest(b, engine.Dynoxide)
	return bare{e.DynamoDB(), e.Table(b).Name}
}

// open returns a limiter on the table. A nil now means the machine's clock.
func (t bare) open(b testing.TB, now func() time.Time) (*limiter.Limiter, *wire) {
	b.Helper()
	w := &wire{DynamoDB: t.db}
	l, err := limiter.Open(b.Context(), w, t.table,
		&limiter.Options{Register: true, Now: now, MaxShards: 1, ConfigTTL: time.Hour})
	check.Must(b, err)
	return l, w
}

// large returns a request for a large bucket. Half of the bucket is taken first, so that it neither
// fills up nor runs dry.
func large(entity string) (req, half limiter.Request) {
	const capacity = 1_000_000_000
	req = limiter.Request{
		Entity: entity, Resource: resource, Costs: limiter.Costs{"rpd": 1, "tpd": 100},
		Limits: []limiter.Limit{limiter.PerDay("rpd", capacity), limiter.PerDay("tpd", capacity)},
	}
	half = req
	half.Costs = limiter.Costs{"rpd": capacity / 2, "tpd": capacity / 2}
	return req, half
}

// twin stores a copy of an entity's bucket for another entity, for calls that need the same state.
func (t bare) twin(b *testing.B, key types.AttributeValue, name string) map[string]types.AttributeValue {
	b.Helper()
	k := map[string]types.AttributeValue{item.AttrPK: key, item.AttrSK: item.S(layout.SKBucketState)}
	out, err := t.db.GetItem(b.Context(), &dynamodb.GetItemInput{TableName: &t.table, Key: k})
	if err != nil || out.Item == nil {
		b.Fatal(err, out)
	}
	k[item.AttrPK] = item.S("ns/BUCKET#" + name + "#" + resource + "#0")
	maps.Copy(out.Item, k)
	check.Must(b, check.Err(t.db.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: &t.table, Item: out.Item})))
	return k
}

// BenchmarkWarmAcquire alternates between the limiter and the bare update that it makes, on one
// emulator. The bare side replays each input of the limiter, one behind, on a copy of its bucket,
// so both sides see the same writes. They take turns at going first.
func BenchmarkWarmAcquire(b *testing.B) {
	t := newBare(b)
	l, w := t.open(b, nil)
	ctx := b.Context()
	req, half := large("acme")
	check.Must(b, check.Err(l.Acquire(ctx, half)))
	check.Must(b, check.Err(l.Acquire(ctx, req)))
	twinKey := t.twin(b, w.last.Key[item.AttrPK], "twin")
	check.Must(b, check.Err(l.Acquire(ctx, req)))
	pending := w.last
	acquire := func() error { _, err := l.Acquire(ctx, req); return err }
	replay := func() error {
		in := *pending
		in.Key = twinKey
		_, err := t.db.UpdateItem(ctx, &in, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
		return err
	}
	timed := func(f func() error) time.Duration {
		begin := time.Now()
		check.Must(b, f())
		return time.Since(begin)
	}
	var own, plain, added []time.Duration // limiter, bare call, and paired differences
	w.calls.Store(0)
	for b.Loop() {
		var mine, raw time.Duration
		if len(own)%2 == 0 {
			mine = timed(acquire)
			next := w.last
			raw = timed(replay)
			pending = next
		} else {
			raw = timed(replay)
			mine = timed(acquire)
			pending = w.last
		}
		own, plain, added = append(own, mine), append(plain, raw), append(added, mine-raw)
	}
	compare(b, own, plain, added)
	check.Equal(b, w.calls.Load(), int64(len(own)), "%d acquires took calls", len(own))
}

// compare reports the measured turns.
func compare(b *testing.B, own, plain, added []time.Duration) {
	b.Helper()
	m, p, d := median(own), median(plain), median(added)
	b.ReportMetric(float64(m.Nanoseconds()), "acquire-ns")
	b.ReportMetric(float64(p.Nanoseconds()), "bare-ns")
	b.ReportMetric(0, "ns/op")
	say(b, "warm acquire  median %v  bare UpdateItem %v  ratio %.3f  on dynoxide, %d turns", m, p, float64(m)/float64(p),
		len(own))
	say(b, "warm acquire  added %v (%.1f %% of the bare call, target 5 %%), median of paired differences", d,
		100*float64(d)/float64(p))
	say(b, "warm acquire  p95 %v  bare %v", quantile(own, 0.95), quantile(plain, 0.95))
}

// BenchmarkRepeatedDenial repeats a request that the last image cannot cover, at one instant. After
// Options.DenyFor, one request per second would call DynamoDB.
func BenchmarkRepeatedDenial(b *testing.B) {
	now := time.Now()
	l, w := newBare(b).open(b, func() time.Time { return now })
	req := limiter.Request{Entity: "acme", Resource: resource, Costs: limiter.Costs{"rpm": 10},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 10)}}
	check.Must(b, check.Err(l.Acquire(b.Context(), req)))
	w.calls.Store(0)
	b.ReportAllocs()
	for b.Loop() {
		check.MustBe(b, check.Err(l.Acquire(b.Context(), req)), limiter.ErrLimited)
	}
	check.MustEqual(b, w.calls.Load(), 0, "%d denials took calls, want none", b.N)
	b.ReportMetric(0, "calls/op")
	say(b, "repeated denial  %v each  calls %d in %d denials", perOp(b), w.calls.Load(), b.N)
}

func perOp(b *testing.B) time.Duration { return b.Elapsed() / time.Duration(b.N) }

// answered returns a limiter whose updates are answered at once with the same image, and a warm
// request. What remains is the limiter's own work: decide, render, decode, remember.
func answered(b testing.TB) (*limiter.Limiter, limiter.Request) {
	t := newBare(b)
	now := time.Now()
	l, w := t.open(b, func() time.Time { return now })
	req, half := large("acme")
	for _, r := range []limiter.Request{half, req} {
		check.Must(b, check.Err(l.Acquire(b.Context(), r)))
	}
	key := map[string]types.AttributeValue{item.AttrPK: w.last.Key[item.AttrPK],
		item.AttrSK: item.S(layout.SKBucketState)}
	out, err := t.db.GetItem(b.Context(), &dynamodb.GetItemInput{TableName: &t.table, Key: key})
	check.Must(b, err)
	w.answer = &dynamodb.UpdateItemOutput{Attributes: out.Item}
	return l, req
}

func BenchmarkAcquireCompute(b *testing.B) {
	l, req := answered(b)
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, check.Err(l.Acquire(b.Context(), req)))
	}
	say(b, "client compute  %v per warm acquire of two limits, without the SDK", perOp(b))
}

// The allocations of a warm acquire of two limits, without the SDK's, are part of its price. So are
// those of a grant from prefetched tokens.
func TestAllocationsOfAnAcquire(t *testing.T) {
	warm, two := answered(t)
	ahead := limitertest.New(t).Limiter(&limiter.Options{Ahead: time.Second})
	held := limiter.Request{Entity: "acme", Resource: resource, Costs: limiter.Costs{"rps": 1},
		Limits: []limiter.Limit{limiter.PerSecond("rps", 1_000_000_000)}}
	for range 1000 { // until it prefetches
		check.Must(t, check.Err(ahead.Acquire(t.Context(), held)))
	}
	for _, c := range []struct {
		name string
		lim  *limiter.Limiter
		req  limiter.Request
		most float64
	}{{"warm", warm, two, 28}, {"ahead", ahead, held, 1.5}} {
		if n := testing.AllocsPerRun(1000, func() {
			check.Must(t, check.Err(c.lim.Acquire(t.Context(), c.req)))
		}); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}
