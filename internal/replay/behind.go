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
	// ToCount is what a replay counts at most, tokens by limit and window: what an
	// earlier window was completed with already is among it.
	ToCount map[string]int64
	Counted map[string]int64 // that the batch itself has counted, before it was given up
	// Behind lists what lies behind later marks, so that a replay does not count it. Each is
	// counted already, by an earlier attempt at this batch or with a later record. It is not if
	// that later record was the first of the bucket to be counted.
	Behind []Behind
}

// Behind is what a batch adds to one snapshot behind a later mark.
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

// add files what a total brings by what became of it.
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
