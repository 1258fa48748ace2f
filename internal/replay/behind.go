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

// Reader reads items of the table, in the order of the keys, with nil for absent ones. Package
// store has one.
type Reader interface {
	Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error)
}

// readAtOnce is how many snapshots one call reads.
const readAtOnce = 100

// Usage is the effect of a batch of the aggregator on the usage snapshots that still exist.
type Usage struct {
	// ToCount is the most that a replay counts, in tokens by limit and window. It includes tokens
	// with which an earlier window was already completed.
	ToCount map[string]int64
	Counted map[string]int64 // what the batch counted itself before it was given up
	// Behind lists the parts before later marks, which a replay does not count. Each was counted,
	// by an earlier attempt at this batch or with a later record, unless that later record was the
	// first one of the bucket to be counted.
	Behind []Behind
}

// Behind is what a batch would add to one snapshot before a later mark.
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
	totals := usage.AllTotals(usage.Fold(batch.Changes), usage.Kinds(windows)[0])
	u := Usage{ToCount: map[string]int64{}, Counted: map[string]int64{}}
	for some := range slices.Chunk(totals, readAtOnce) {
		keys := make([]item.Key, len(some))
		for i := range some {
			keys[i] = some[i].Key()
		}
		snapshots, err := r.Read(ctx, true, keys...)
		if err != nil {
			return Usage{}, fmt.Errorf("usage snapshots: %w", err)
		}
		for i := range some {
			u.add(&some[i], some[i].Progress(snapshots[i]))
		}
	}
	return u, nil
}

// add adds the progress of a total.
func (u *Usage) add(t *usage.Total, p usage.Progress) {
	for _, c := range p.Left {
		u.ToCount[c.Limit+" "+string(t.Window)] += c.Tokens
	}
	for _, c := range p.Counted {
		u.Counted[c.Limit+" "+string(t.Window)] += c.Tokens
	}
	if p.Records == 0 {
		return
	}
	b := Behind{
		Namespace: t.Namespace, Entity: t.Entity, Resource: t.Resource, Window: string(t.Window),
		Start: t.From(), Records: p.Records, Tokens: map[string]int64{},
	}
	for _, c := range p.Behind {
		b.Tokens[c.Limit] = c.Tokens
	}
	u.Behind = append(u.Behind, b)
}
