package admin

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// marksBack is how many snapshots are looked through for how far a shard was
// counted that the current window has not counted.
const marksBack = 1000

// start returns when the window began that holds an instant, and what its key ends
// with.
func (w Window) start(now time.Time) (start time.Time, part string) {
	now = now.UTC()
	switch w {
	case Daily:
		start = now.Truncate(day)
		return start, start.Format("2006-01-02")
	case Monthly:
		start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		return start, start.Format("2006-01")
	}
	start = now.Truncate(time.Hour)
	return start, start.Format(time.RFC3339)
}

// contains reports whether the window of this kind that begins at start contains the window
// of some usage.
func (w Window) contains(start time.Time, u Usage) bool {
	return !u.Start.Before(start) && u.Start.Before(w.end(start))
}

// covers reports whether the query asks for windows that begin at an instant.
func (q UsageQuery) covers(start time.Time) bool {
	return (q.From.IsZero() || !start.Before(q.From)) && (q.To.IsZero() || start.Before(q.To))
}

// live returns the usage of a bucket in the current window. It adds two parts: what the snapshot of
// the window says, or the snapshots of its hours, and by how much the counters of the shards have grown
// since. Snapshots are read first, so that nothing is counted twice. ok is false if there is no
// usage.
func (n *Namespace) live(ctx context.Context, of Scope, w Window) (u Usage, ok bool, err error) {
	start, part := w.start(n.table.opts.Now())
	key := layout.UsageKey(n.id, of.Entity, of.Resource, part)
	items, err := n.calls.read(ctx, key)
	if err != nil {
		return u, false, err
	}
	u = Usage{Entity: of.Entity, Resource: of.Resource, Window: w, Start: start, Tokens: map[string]int64{}}
	u.End = w.end(start)
	counted := items // that say how far the window is counted, the latest first
	switch {
	case w != Hourly && (items[0] == nil || ledger.IsSum(items[0])):
		if counted, err = n.hours(ctx, of, part, &u); err != nil {
			return u, false, err
		}
	case items[0] != nil:
		s, err := ledger.DecodeSnapshot(items[0])
		if err != nil {
			return u, false, err
		}
		u = usageOf(s)
	}
	shards, err := n.shards(ctx, of.Entity, of.Resource)
	if err != nil {
		return u, false, err
	}
	counted = slices.DeleteFunc(counted, func(it item.Item) bool { return it == nil })
	marks, others, err := n.marks(ctx, key, counted, shards, u)
	if err != nil {
		return u, false, err
	}
	for _, b := range shards {
		m, known := marks[b.State.Shard]
		if !known && (others || b.Born < start.Unix()) {
			continue // how far it was counted is not known, or it is of earlier windows
		}
		for limit, n := range grown(m, b) {
			if ok = ok || n != 0; limit == bucket.Denied {
				u.Denied += n
			} else {
				u.Tokens[limit] += n
			}
		}
	}
	return u, ok || len(counted) > 0, nil
}

// hours adds up the current day or month from its hours, of which it may be behind, and
// returns their snapshots, the latest first. Of a month, days count instead that were
// over before yesterday: they are behind no more.
func (n *Namespace) hours(ctx context.Context, of Scope, part string, u *Usage) (hours []item.Item, err error) {
	today, _ := Daily.start(n.table.opts.Now())
	var sum ledger.Amount
	days := map[string]bool{} // that count
	for it, err := range n.calls.query(ctx, ledger.UsageOfEntity(n.id, of.Entity, of.Resource, part, part)) {
		if err != nil {
			return nil, err
		}
		start := parseTime(ledger.WindowStartOf(it))
		day := start.Format(time.DateOnly)
		switch kind := Window(ledger.WindowOf(it)); {
		case ledger.ResourceOf(it) != of.Resource || start.Before(u.Start) || !start.Before(u.End):
		case kind == u.Window:
			if base := ledger.SummedOf(it).Base; base != nil {
				sum.Add(*base)
			}
		case kind == Daily && start.Before(today.AddDate(0, 0, -1)):
			days[day] = true
			sum.Add(ledger.AmountOf(it))
		case ledger.IsHourOfDay(it):
			if hours = append(hours, it); !days[day] {
				sum.Add(ledger.AmountOf(it))
			}
		}
	}
	slices.Reverse(hours)
	u.Events, u.Denied = sum.Events, sum.Tokens[bucket.Denied]
	delete(sum.Tokens, bucket.WCU)
	delete(sum.Tokens, bucket.Denied)
	maps.Copy(u.Tokens, sum.Tokens)
	return hours, nil
}

// marks returns how far the shards of a bucket were counted in the window of u, by its
// snapshots, the latest first, or else before it. counted reports whether another client
// has written the last snapshot, which has no marks.
func (n *Namespace) marks(
	ctx context.Context, current item.Key, snapshots []item.Item, shards []table.Shard, u Usage,
) (marks map[int]ledger.Mark, counted bool, err error) {
	marks = map[int]ledger.Mark{}
	note := func(it item.Item) (done bool) {
		m := ledger.MarksOf(it)
		done = true
		for _, b := range shards {
			if _, known := marks[b.State.Shard]; known {
				continue
			}
			if mark, ok := m.Shard(b.State.Shard); ok {
				marks[b.State.Shard] = mark
			} else {
				done = false
			}
		}
		counted = !m.Any
		return done || counted
	}
	if len(shards) == 0 || slices.ContainsFunc(snapshots, note) {
		return marks, counted, nil
	}
	seen := 0
	for it, err := range n.calls.query(ctx, ledger.UsageBefore(current)) {
		if err != nil {
			return nil, false, err
		}
		if seen++; seen > marksBack || u.follows(it) && note(it) {
			break
		}
	}
	return marks, counted, nil
}

// follows reports whether a snapshot before u's says how far its bucket was counted. It does
// if it is of the same kind of window, or of another kind whose window was over. Days are behind
// the hours that are in them.
func (u Usage) follows(it item.Item) bool {
	kind := Window(ledger.WindowOf(it))
	over := kind.end(parseTime(ledger.WindowStartOf(it)))
	return ledger.ResourceOf(it) == u.Resource && !ledger.IsSum(it) &&
		(kind == u.Window || ledger.MarksOf(it).Any && !over.IsZero() && !over.After(u.Start))
}

// grown returns what a shard has consumed since a mark, tokens by limit, and how many requests it has denied; the
// zero mark is before everything. A shard that was removed, or whose counters have
// fallen in another generation, has begun anew since.
func grown(m ledger.Mark, b table.Shard) map[string]int64 {
	out := map[string]int64{}
	if !m.Gone && len(m.Used) == 0 && m.At != (ledger.Position{}) {
		return out // how far it was counted is not known
	}
	all, anew := map[string]int64{bucket.Denied: b.Denied / bucket.Milli}, m.Gone
	if before, _ := ledger.CountOf(m.Used, bucket.Denied); b.Denied > 0 {
		out[bucket.Denied] = all[bucket.Denied] - before
		anew = anew || out[bucket.Denied] < 0
	}
	for _, sl := range b.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		used := b.Spent(sl).Mark()
		before, _ := ledger.CountOf(m.Used, sl.Name)
		all[sl.Name], out[sl.Name] = used, used-before
		anew = anew || used-before < 0 && (m.Gen == 0 || m.Gen != table.GenerationByte(b.Generation))
	}
	if anew {
		return all
	}
	return out
}
