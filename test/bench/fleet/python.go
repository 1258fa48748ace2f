package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	smithytime "github.com/aws/smithy-go/time"

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

// pythonWriter writes the items of a table with the documented algorithm of the Python client
// (docs/wire-format.md). It picks a shard at random, tries two others if the first lacks tokens,
// and then refills shard 0 by the whole limit. It keeps no image between calls. It is not the real
// client.
type pythonWriter struct {
	t         *tableStore
	rng       *rand.Rand
	namespace string
	count     int  // of shards, from the last image
	metered   bool // otherwise the write meter counts as full, as the aggregator should keep it
}

var errPythonDenied = errors.Join(limiter.ErrLimited, errors.New("denied by the model of the Python client"))

func (p *pythonWriter) key(shard int) item.Key {
	return layout.BucketKey(p.namespace, entity, resource, shard)
}

func (p *pythonWriter) acquire(ctx context.Context, tokens []int64) error {
	p.count = max(p.count, 1)
	first := p.rng.IntN(p.count)
	for try := range min(p.count, 3) {
		held, image, err := p.spend(ctx, (first+try)%p.count, tokens)
		if held || err != nil {
			return err
		}
		if _, covered := p.refilled(image, nowMilli(), tokens); p.count == 1 && !covered {
			return errPythonDenied
		}
	}
	return p.refill(ctx, tokens)
}

// spend is the plain add, which checks only stored levels. It returns the image after it, or the
// one that refused it.
func (p *pythonWriter) spend(ctx context.Context, shard int, tokens []int64) (held bool, b table.Shard, err error) {
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
	if p.metered {
		add(bucket.WCU, bucket.WCUPerWrite)
	}
	u.If = item.All(cond...)
	image, err := p.t.Write(ctx, u)
	if refused, ok := errors.AsType[*store.Refused](err); ok {
		image, err = refused.Old, nil
	} else {
		held = err == nil
	}
	b, broken := table.DecodeShard(image)
	if broken == nil {
		p.count = b.State.Count()
	}
	return held, b, err
}

// refilled returns the refill of each limit in whole millitokens; the rest is dropped. covered
// reports whether the request is covered after it.
func (p *pythonWriter) refilled(b table.Shard, now int64, tokens []int64) (added []int64, covered bool) {
	for i, l := range p.t.limits {
		sl := b.State.Slots[b.State.Index(l.Name)]
		full := max(sl.Tokens, min(sl.Capacity, sl.Tokens+max(0, now-b.State.RF)*sl.Amount/sl.Period))
		if full < tokens[i]*bucket.Milli {
			return nil, false
		}
		added = append(added, full-sl.Tokens)
	}
	return added, true
}

func level(limit string) string   { return table.LimitPrefix + limit + "_" + table.FieldTokens }
func counter(limit string) string { return table.LimitPrefix + limit + "_tc" }

// refill reads shard 0, refills it as if it were the whole bucket and takes. If another writer has
// moved its clock, or taken more than the refill adds, it sends the plain add again.
func (p *pythonWriter) refill(ctx context.Context, tokens []int64) error {
	now := nowMilli() // read before the item is, W7
	items, err := p.t.Read(ctx, false, p.key(0))
	if err != nil || items[0] == nil {
		return errors.Join(errPythonDenied, err)
	}
	b, err := table.DecodeShard(items[0])
	if err != nil {
		return err
	}
	added, covered := p.refilled(b, now, tokens)
	if !covered {
		return errPythonDenied
	}
	u := item.Update{Key: p.key(0), Set: []item.Attr{{Name: layout.AttrRF, Value: item.N(nowMilli())}}}
	cond := []item.Cond{item.Compare(layout.AttrRF, item.Eq, item.N(b.State.RF))}
	for i, l := range p.t.limits {
		cost := tokens[i] * bucket.Milli
		u.Add = append(u.Add, item.Attr{Name: level(l.Name), Value: item.N(added[i] - cost)},
			item.Attr{Name: counter(l.Name), Value: item.N(cost)})
		cond = append(cond, item.Compare(level(l.Name), item.Ge, item.N(max(0, cost-added[i]))))
	}
	u.If = item.All(cond...)
	_, err = p.t.Write(ctx, u)
	if _, ok := errors.AsType[*store.Refused](err); ok {
		var held bool
		if held, _, err = p.spend(ctx, 0, tokens); err == nil && !held {
			return errPythonDenied
		}
	}
	return err
}

// begin creates the bucket of a case and splits it. It returns the namespace.
func (t *tableStore) begin(ctx context.Context, c Case) (namespace string, err error) {
	l, err := t.process(ctx, c.Options)
	if err != nil {
		return "", err
	}
	costs := make([]int64, len(c.Bucket.Limits))
	for i, l := range c.Bucket.Limits {
		if c.Python > 0 { // from a full bucket it would also take the overflow
			costs[i] = l.Capacity / 2
		}
	}
	if _, err = l.Acquire(ctx, c.Bucket.request(costs)); err != nil {
		return "", err
	}
	return l.NamespaceID(), t.divide(ctx, l.NamespaceID(), c.Shards)
}

// divide splits the bucket into a number of shards.
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
	for smithytime.SleepWithContext(ctx, time.Second) == nil {
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
	return nil
}
