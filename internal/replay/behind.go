package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// Reader reads items of the table, in the order of the keys, nil where there is
// none. Package store has one.
type Reader interface {
	Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error)
}

// readAtOnce is how many snapshots are read in one call.
const readAtOnce = 100

// Usage is what a batch of the aggregator means for the usage snapshots of the
// windows that are kept.
type Usage struct {
	ToCount map[string]int64 // tokens by limit and window that a replay counts
	Counted map[string]int64 // that the batch itself has counted, before it was given up
	// Behind lists what lies behind later watermarks: each is counted already, by
	// an earlier attempt at this batch, or missing, and a replay does not count it.
	Behind []Behind
}

// Behind is what a batch adds to one snapshot behind a later watermark.
type Behind struct {
	Namespace, Entity, Resource string
	Window, Start               string
	Records                     int
	Tokens                      map[string]int64 // by limit
}

// String describes it in one line.
func (b Behind) String() string {
	var tokens []string
	for _, limit := range slices.Sorted(maps.Keys(b.Tokens)) {
		tokens = append(tokens, fmt.Sprintf("%s %d", limit, b.Tokens[limit]))
	}
	return fmt.Sprintf("%s/%s on %s, %s from %s: at most %s of %d records", b.Namespace, b.Entity, b.Resource,
		b.Window, b.Start, strings.Join(tokens, ", "), b.Records)
}

// inspect compares a batch of the aggregator with the snapshots.
func inspect(ctx context.Context, r Reader, payload []byte, windows []usage.Window) (Usage, error) {
	batch, err := stream.Decode(payload)
	if err != nil {
		return Usage{}, err
	}
	totals := usage.Totals(usage.Fold(batch.Changes), windows)
	u := Usage{ToCount: map[string]int64{}, Counted: map[string]int64{}}
	for some := range slices.Chunk(totals, readAtOnce) {
		keys := make([]item.Key, len(some))
		for i, t := range some {
			keys[i] = t.Usage().Key()
		}
		snapshots, err := r.Read(ctx, true, keys...)
		if err != nil {
			return Usage{}, fmt.Errorf("usage snapshots: %w", err)
		}
		for i, t := range some {
			u.add(t, snapshots[i])
		}
	}
	return u, nil
}

// add files the records of a total by what became of them.
func (u *Usage) add(t usage.Total, snapshot item.Item) {
	left := t.Except(snapshot)
	sum(u.ToCount, t, left)
	counted, behind := t, t
	counted.Shards, behind.Shards = nil, nil
	for _, s := range t.Shards {
		done := passed(s, left)
		switch {
		case len(done.Changes) == 0:
		case len(done.Changes) < len(s.Changes):
			// The watermark is within the batch: nothing later moved it.
			counted.Shards = append(counted.Shards, done)
		default:
			behind.Shards = append(behind.Shards, done)
		}
	}
	sum(u.Counted, t, counted)
	if behind.Empty() {
		return
	}
	b := Behind{
		Namespace: t.Namespace, Entity: t.Entity, Resource: t.Resource, Window: string(t.Window),
		Tokens: map[string]int64{},
	}
	written := behind.Usage()
	b.Start, b.Records = written.Start, int(written.Events)
	for _, c := range written.Counts {
		b.Tokens[c.Limit] = c.Tokens
	}
	u.Behind = append(u.Behind, b)
}

// passed returns the records of a shard that are not left.
func passed(s usage.ShardTotal, left usage.Total) usage.ShardTotal {
	i := slices.IndexFunc(left.Shards, func(l usage.ShardTotal) bool { return l.Shard == s.Shard })
	if i < 0 {
		return s
	}
	kept := left.Shards[i].Changes
	isKept := func(c *stream.Change) bool { return slices.Contains(kept, c) }
	return usage.ShardTotal{Shard: s.Shard, Changes: slices.DeleteFunc(slices.Clone(s.Changes), isKept)}
}

// sum adds the tokens of part of a total, by limit and window.
func sum(to map[string]int64, t, part usage.Total) {
	if part.Empty() {
		return
	}
	for _, c := range part.Usage().Counts {
		to[c.Limit+" "+string(t.Window)] += c.Tokens
	}
}
