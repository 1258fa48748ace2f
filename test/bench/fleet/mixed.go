package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// pythonWriter is a writer of the documented algorithm of the Python client on the items of a table that
// limiters use too (docs/wire-format.md). It picks a shard at random, asks two others when the
// first is short, and then refills shard 0 by the whole limit.
type pythonWriter struct {
	t         *tableStore
	rng       *rand.Rand
	namespace string
	count     int // of shards, as the last image says
}

func (p *pythonWriter) key(shard int) item.Key {
	return layout.BucketKey(p.namespace, entity, resource, shard)
}

func (p *pythonWriter) acquire(ctx context.Context, tokens []int64) error {
	p.count = max(p.count, 1)
	first := p.rng.IntN(p.count)
	for try := range min(p.count, 3) {
		held, err := p.spend(ctx, (first+try)%p.count, tokens)
		if held || err != nil {
			return err
		}
	}
	return p.refill(ctx, tokens)
}

// spend is the plain add, which looks at stored levels only.
func (p *pythonWriter) spend(ctx context.Context, shard int, tokens []int64) (held bool, err error) {
	u := item.Update{Key: p.key(shard)}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	add := func(limit string, milli int64) {
		u.Add = append(u.Add, item.Attr{Name: level(limit), Value: item.N(-milli)},
			item.Attr{Name: counter(limit), Value: item.N(milli)})
		cond = append(cond, item.Compare(level(limit), item.Ge, item.N(milli)))
	}
	for i, l := range p.t.limits {
		add(l.Name, tokens[i]*bucket.Milli)
	}
	add(bucket.WCU, bucket.WCUPerWrite)
	u.If = item.All(cond...)
	image, err := p.t.Write(ctx, u)
	if refused, ok := errors.AsType[*store.Refused](err); ok {
		image, err = refused.Old, nil
	} else {
		held = err == nil
	}
	if b, broken := table.DecodeShard(image); broken == nil {
		p.count = b.State.Count()
	}
	return held, err
}

func level(limit string) string   { return table.LimitPrefix + limit + "_" + table.FieldTokens }
func counter(limit string) string { return table.LimitPrefix + limit + "_tc" }

// refill reads shard 0, refills it as if it were the whole bucket and takes, unless
// somebody else has moved its clock.
func (p *pythonWriter) refill(ctx context.Context, tokens []int64) error {
	items, err := p.t.Read(ctx, false, p.key(0))
	if err != nil || items[0] == nil {
		return errors.Join(errPythonDenied, err)
	}
	b, err := table.DecodeShard(items[0])
	if err != nil {
		return err
	}
	now := nowMilli()
	u := item.Update{Key: p.key(0), Set: []item.Attr{{Name: layout.AttrRF, Value: item.N(now)}},
		If: item.Compare(layout.AttrRF, item.Eq, item.N(b.State.RF))}
	for i, l := range p.t.limits {
		sl, cost := b.State.Slots[b.State.Index(l.Name)], tokens[i]*bucket.Milli
		refilled := max(sl.Tokens, min(sl.Capacity, sl.Tokens+max(0, now-b.State.RF)*sl.Amount/sl.Period))
		if refilled < cost {
			return errPythonDenied
		}
		u.Add = append(u.Add, item.Attr{Name: level(l.Name), Value: item.N(refilled - sl.Tokens - cost)},
			item.Attr{Name: counter(l.Name), Value: item.N(cost)})
	}
	_, err = p.t.Write(ctx, u)
	if _, ok := errors.AsType[*store.Refused](err); ok {
		var held bool
		if held, err = p.spend(ctx, 0, tokens); err == nil && !held {
			return errPythonDenied
		}
	}
	return err
}

// Writers is how many writers of each kind take tokens in a run of [Case.Mixed].
type Writers struct{ Python, Go int }

// Mixed runs a bucket of so many shards with writers of both kinds, and with the aggregator, which
// sees the stream once a second. It has to be called inside a bubble of testing/synctest.
func (c Case) Mixed(ctx context.Context, w Writers, shards int) (r Result, err error) {
	t := newTable(c)
	first, err := t.process(ctx, limiter.Options{MaxShards: shards})
	if err != nil {
		return r, err
	}
	half := make([]int64, len(c.Bucket.Limits)) // from a full one Python also takes the overflow
	for i, l := range c.Bucket.Limits {
		half[i] = l.Capacity / 2
	}
	if _, err = first.Acquire(ctx, c.Bucket.request(half)); err != nil {
		return r, err
	}
	if err = t.divide(ctx, first.NamespaceID(), shards); err != nil {
		return r, err
	}
	var processes []process
	for i := range w.Python {
		p := &pythonWriter{t: t, rng: rand.New(rand.NewPCG(c.Seed, 100+uint64(i))), namespace: first.NamespaceID()}
		processes = append(processes, p.acquire)
	}
	for range w.Go {
		l, err := t.process(ctx, limiter.Options{MaxShards: shards})
		if err != nil {
			return r, err
		}
		processes = append(processes, func(ctx context.Context, tokens []int64) error {
			_, err := l.Acquire(ctx, c.Bucket.request(tokens))
			return err
		})
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- t.aggregate(ctx, shards) }()
	r = c.arrive(ctx, processes, t)
	stop()
	return r, <-ended
}

// divide splits the bucket until it has so many shards.
func (t *tableStore) divide(ctx context.Context, namespace string, shards int) error {
	for count := 1; count < shards; count *= 2 {
		var all []table.Shard
		for k := range count {
			b, err := table.DecodeShard(t.db.Item(layout.BucketKey(namespace, entity, resource, k)))
			if err != nil {
				return err
			}
			all = append(all, b)
		}
		for _, b := range all {
			if _, err := shard.Run(ctx, t.db.Bare(), shard.Follow(b, 2*count), nowMilli); err != nil {
				return err
			}
		}
	}
	return nil
}

// aggregate does the aggregator's work on shards and levels once a second.
func (t *tableStore) aggregate(ctx context.Context, shards int) error {
	conf := usage.Config{MaxShards: shards, MergeAfter: time.Hour.Milliseconds()}
	seen := int64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		var records []streamtest.Record
		for _, c := range t.db.Changes(seen) {
			seen = c.Seq
			if c.Key.SK == layout.SKBucketState {
				records = append(records,
					streamtest.Record{Sequence: c.SequenceNumber(), Created: c.CreatedAt, Old: c.Old, New: c.New})
			}
		}
		batch, err := stream.Decode(streamtest.Payload(records...))
		if err != nil {
			return err
		}
		plan := usage.Decide(usage.Fold(batch.Changes), nowMilli(), conf)
		for _, r := range plan.Refills {
			_, err := t.Write(context.WithoutCancel(ctx), r.Update)
			if _, refused := errors.AsType[*store.Refused](err); err != nil && !refused {
				return fmt.Errorf("refill: %w", err)
			}
		}
		for _, r := range plan.Reshardings {
			if _, err := shard.Run(context.WithoutCancel(ctx), t, r.Steps, nowMilli); err != nil {
				return fmt.Errorf("shards: %w", err)
			}
		}
	}
}
