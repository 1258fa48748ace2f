package streams

import (
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// kinds returns the kinds of windows in use, shortest first: the first is counted, the others are
// summed.
func (a *Aggregator) kinds() []usage.Window { return usage.Kinds(a.conf.Windows) }

// summed is a window to sum.
type summed struct {
	kind  int // index of the aggregator's kinds
	start int64
	key   item.Key

	changed int64 // start of the only owed window in it; 0: there are several
}

// longer returns the owed windows of one bucket, days before months.
func (a *Aggregator) longer(owed []usage.Owed) (out []summed) {
	for kind, w := range a.kinds()[1:] {
		for i, o := range owed {
			if start := w.Start(o.Start); i == 0 || start != w.Start(owed[i-1].Start) {
				out = append(out, summed{kind + 1, start, o.SumKey(w, start), o.Start})
			} else {
				out[len(out)-1].changed = 0
			}
		}
	}
	return out
}

// sum sums the owed longer windows of one bucket, starting from their snapshots as read before. Where
// one can never be stored, it goes on with the next.
func (a *Aggregator) sum(ctx context.Context, owed []usage.Owed, read map[item.Key]item.Item) (writes int, err error) {
	for _, w := range a.longer(owed) {
		n, failed := a.sumWindow(ctx, owed[0], w, read)
		writes, err = writes+n, worse(err, failed)
		if fails(err) {
			return writes, err
		}
	}
	return writes, err
}

// sumNow reads and sums the owed longer windows of one bucket.
func (a *Aggregator) sumNow(ctx context.Context, owed []usage.Owed) (writes int, err error) {
	read, err := a.readSums(ctx, owed)
	if err != nil {
		return 0, err
	}
	return a.sum(ctx, owed, read)
}

// readSums reads the stored snapshots of owed longer windows, which are sorted by bucket.
func (a *Aggregator) readSums(ctx context.Context, owed []usage.Owed) (map[item.Key]item.Item, error) {
	var keys []item.Key
	for len(owed) > 0 {
		n := siblings(owed)
		for _, w := range a.longer(owed[:n]) {
			keys = append(keys, w.key)
		}
		owed = owed[n:]
	}
	return a.readAll(ctx, false, keys)
}

// siblings returns how many owed windows at the beginning belong to one bucket.
func siblings(owed []usage.Owed) (n int) {
	for n < len(owed) && owed[n].Bucket == owed[0].Bucket {
		n++
	}
	return n
}

// sumCompleted sums the longer windows around earlier windows that a total may have completed. The
// windows around its own are summed, or owed, after it is counted.
func (a *Aggregator) sumCompleted(ctx context.Context, t *usage.Total, starts []int64) (int, error) {
	kinds := a.kinds()
	if len(kinds) == 1 {
		return 0, nil
	}
	own := t.Owed(t.Start, kinds[1])
	var owed []usage.Owed
	for _, start := range starts {
		if o := t.Owed(start, kinds[1]); o != own {
			owed = append(owed, o)
		}
	}
	return a.sumNow(ctx, usage.MergeOwed(owed))
}

// sumWindow updates one longer window.
func (a *Aggregator) sumWindow(ctx context.Context, o usage.Owed, w summed,
	stored map[item.Key]item.Item) (writes int, err error) {
	kinds := a.kinds()
	s := usage.Summing{
		Owed: o, Window: kinds[w.kind], Of: kinds[w.kind-1], Until: kinds[len(kinds)-1],
		Start: w.start, Changed: w.changed, Days: a.conf.SnapshotTTLDays,
	}
	var known, sure bool // sure: it was read consistently
	s.Stored, known = stored[w.key]
	for range 2 * rounds {
		if !known {
			items, err := a.readAll(ctx, sure, []item.Key{w.key})
			if err != nil {
				return 0, err
			}
			s.Stored = items[w.key]
		}
		if s.Parts, err = a.partsOf(ctx, &s); err != nil {
			return 0, err
		}
		u, due := s.Sum(a.now())
		if known = false; !due {
			if sure {
				return a.replace(ctx, &s)
			}
			sure = true // it may be another sum by now
			continue
		}
		_, err := a.writeUsage(ctx, u, usageAttempts) // commit point: everything counted before the parts were read
		if err == nil {
			n, err := a.replace(ctx, &s)
			return 1 + n, err
		}
		old, seen, giveUp := again(ctx, err)
		if giveUp != nil {
			return 0, giveUp
		}
		if seen {
			s.Stored, known, sure = old, true, true
		}
	}
	return 0, errRounds
}

// replace marks another aggregator's day as replaced, after the sum of its hours is stored. A
// refusal means that another process has done so, or that the day has changed since: the next sum
// of the day checks again.
func (a *Aggregator) replace(ctx context.Context, s *usage.Summing) (writes int, err error) {
	if u, due := s.Replaced(); due {
		return a.once(ctx, u, usageAttempts)
	}
	return 0, nil
}

// partsOf reads the current parts of a window.
func (a *Aggregator) partsOf(ctx context.Context, s *usage.Summing) ([]item.Item, error) {
	if s.Last() {
		key := s.SumKey(s.Of, s.Changed)
		day, err := a.readAll(ctx, true, []item.Key{key})
		if err != nil || day[key] != nil {
			return []item.Item{day[key]}, err
		}
		s.Changed = 0 // the part is gone
	}
	if s.Of == usage.Hourly {
		page, err := a.store.List(ctx, s.PartsQuery())
		if err != nil || page.Next == nil {
			return page.Items, err
		}
		// Other items are among the hours, and there may be any number of them.
	}
	items, err := a.readAll(ctx, true, s.PartKeys(a.now()))
	return slices.Collect(maps.Values(items)), err
}

// readAll reads any number of items, with nil for absent ones.
func (a *Aggregator) readAll(ctx context.Context, consistent bool, keys []item.Key) (map[item.Key]item.Item, error) {
	out := make(map[item.Key]item.Item, len(keys))
	for some := range slices.Chunk(keys, item.MaxReadKeys) {
		items, err := a.store.Read(ctx, consistent, some...)
		if err != nil {
			return nil, err
		}
		for i, it := range items {
			out[some[i]] = it
		}
	}
	return out, nil
}
