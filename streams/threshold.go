package streams

import (
	"context"
	"log/slog"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// report reports the thresholds that the quotas of a bucket have reached, each once per period. It
// sends an alert, logs a line, and then writes a record that both are done. The record comes last,
// so nothing is lost: if the function dies before it, alert and line are repeated.
func (a *Aggregator) report(ctx context.Context, s usage.Spending) (writes int, err error) {
	if s.Shards > 1 {
		if s, err = a.sumShards(ctx, s); err != nil {
			return 0, err
		}
	}
	var highest, lower []ledger.Threshold
	for _, these := range s.Thresholds(a.now(), a.conf) {
		highest = append(highest, these[len(these)-1])
		lower = append(lower, these[:len(these)-1]...)
	}
	due, err := a.unreported(ctx, highest)
	if len(due) == 0 {
		return 0, err // the lower ones were reported before
	}
	below, err := a.unreported(ctx, lower)
	if err != nil {
		return 0, err
	}
	for _, t := range append(below, due...) {
		if err := a.send(ctx, t); err != nil {
			return writes, err
		}
		a.log.LogAttrs(ctx, slog.LevelInfo, "quota threshold", slog.String("entity", t.Entity),
			slog.String("resource", t.Resource), slog.String("limit", t.Limit), slog.Int("percent", t.Percent),
			slog.Int64("spent", t.Spent), slog.Int64("quota", t.Quota), slog.Int64("resets_at_ms", t.End))
		n, err := a.once(ctx, t.Update(), attempts)
		if writes += n; err != nil {
			return writes, err
		}
	}
	return writes, nil
}

// unreported returns the thresholds that have no record yet.
func (a *Aggregator) unreported(ctx context.Context, of []ledger.Threshold) (out []ledger.Threshold, err error) {
	keys := make([]item.Key, len(of))
	for i, t := range of {
		keys[i] = t.Key()
	}
	records, err := a.readAll(ctx, true, keys)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		if records[k] == nil {
			out = append(out, of[i])
		}
	}
	return out, nil
}

// shardsAtOnce is how many shards are held in memory as items, which may have 400 KB each.
const shardsAtOnce = 32

// sumShards reads the shards of a divided bucket. If one cannot be read, or is none of ours, the sum
// is unknown: an unreadable shard's own record is set aside when it arrives.
func (a *Aggregator) sumShards(ctx context.Context, s usage.Spending) (usage.Spending, error) {
	for {
		var shards []table.Shard
		for keys := range slices.Chunk(s.Keys(), shardsAtOnce) {
			items, err := a.readAll(ctx, true, keys)
			if err != nil {
				return s, err
			}
			for _, k := range keys {
				if items[k] == nil {
					continue
				}
				b, ok := usage.Share(items[k])
				if !ok {
					return s, nil
				}
				shards = append(shards, b)
			}
		}
		wider, ok := s.Wider(shards)
		if !ok {
			return s.Sum(shards), nil
		}
		s = wider
	}
}
