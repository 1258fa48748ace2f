package replay

import (
	"context"
	"fmt"
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
	Behind []string // "ns/acme on gpt-4, hourly from 2023-11-14T22:00:00Z: at most rpm 1 of 1 records"
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
	var tokens []string
	for _, c := range p.Behind {
		tokens = append(tokens, fmt.Sprintf("%s %d", c.Limit, c.Tokens))
	}
	u.Behind = append(u.Behind, fmt.Sprintf("%s/%s on %s, %s from %s: at most %s of %d records", t.Namespace, t.Entity,
		t.Resource, t.Window, t.From(), strings.Join(slices.Sorted(slices.Values(tokens)), ", "), p.Records))
}
