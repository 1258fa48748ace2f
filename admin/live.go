package admin

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
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

// covers reports whether the query asks for windows that begin at an instant.
func (q UsageQuery) covers(start time.Time) bool {
	return (q.From.IsZero() || !start.Before(q.From)) && (q.To.IsZero() || start.Before(q.To))
}

// live returns the usage of a bucket in the current window: what its snapshot says,
// and what the counters of its shards have grown by since. The snapshot is read
// first, so that nothing is counted twice. ok is false if there is none of it.
func (n *Namespace) live(ctx context.Context, of Scope, w Window) (u Usage, ok bool, err error) {
	start, part := w.start(n.table.opts.Now())
	key := table.UsageKey(n.id, of.Entity, of.Resource, part)
	items, err := n.calls.read(ctx, key)
	if err != nil {
		return u, false, err
	}
	u = Usage{Entity: of.Entity, Resource: of.Resource, Window: w, Start: start, Tokens: map[string]int64{}}
	u.End = w.end(start)
	if items[0] != nil {
		s, err := table.DecodeSnapshot(items[0])
		if err != nil {
			return u, false, err
		}
		u = usageOf(s)
	}
	shards, err := n.shards(ctx, of.Entity, of.Resource)
	if err != nil {
		return u, false, err
	}
	marks, counted, err := n.marks(ctx, key, items[0], shards, u)
	if err != nil {
		return u, false, err
	}
	for _, b := range shards {
		m, known := marks[b.State.Shard]
		if !known && (counted || b.Born < start.Unix()) {
			continue // what was counted of it is not known, or it is of earlier windows
		}
		for limit, tokens := range grown(m, b) {
			u.Tokens[limit] += tokens
			ok = ok || tokens != 0
		}
	}
	return u, ok || items[0] != nil, nil
}

// marks returns how far the shards of a bucket were counted in the window of u, or else
// before it. counted reports whether another client has written the last snapshot of the
// same kind of window, which says nothing of that.
func (n *Namespace) marks(
	ctx context.Context, current item.Key, snapshot item.Item, shards []table.Shard, u Usage,
) (marks map[int]table.Mark, counted bool, err error) {
	marks = map[int]table.Mark{}
	note := func(it item.Item) (done bool) {
		m := table.MarksOf(it)
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
	if len(shards) == 0 || snapshot != nil && note(snapshot) {
		return marks, counted, nil
	}
	seen := 0
	for it, err := range n.calls.query(ctx, table.UsageBefore(current)) {
		if err != nil {
			return nil, false, err
		}
		if seen++; seen > marksBack || u.follows(it) && note(it) {
			break
		}
	}
	return marks, counted, nil
}

// follows reports whether a snapshot before that of u says how far its bucket was
// counted: one of the same kind of window, or one of another kind whose window was over.
// Days are behind the hours that are in them.
func (u Usage) follows(it item.Item) bool {
	kind := Window(table.WindowOf(it))
	over := kind.end(parseTime(table.WindowStartOf(it)))
	return table.ResourceOf(it) == u.Resource &&
		(kind == u.Window || table.MarksOf(it).Any && !over.IsZero() && !over.After(u.Start))
}

// grown returns what a shard has consumed since a mark, tokens by limit; the zero
// mark is before everything. A shard that was removed, or whose counters have
// fallen in another generation, has begun anew since.
func grown(m table.Mark, b table.Shard) map[string]int64 {
	out := map[string]int64{}
	if !m.Gone && len(m.Used) == 0 && m.At != (table.Position{}) {
		return out // how far it was counted is not known
	}
	anew := m.Gone
	for _, sl := range b.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		used := bucket.WholeTokens(sl.Spent())
		before, _ := table.CountOf(m.Used, sl.Name)
		out[sl.Name] = used - before
		anew = anew || used < before && (m.Life == 0 || m.Life != table.LifeOf(b.Generation))
	}
	if anew {
		for _, sl := range b.State.Slots {
			if _, ok := out[sl.Name]; ok {
				out[sl.Name] = bucket.WholeTokens(sl.Spent())
			}
		}
	}
	return out
}
