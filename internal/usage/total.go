package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// maxTotalShards is how many shards' records one snapshot update carries: each
// adds a condition, and DynamoDB takes expressions of 4 KB. Buckets with more
// shards than that active in one batch take more than one update.
const maxTotalShards = 32

// Total is what a batch adds to one usage snapshot: the records that fall into
// its window, kept apart so that what is counted already can be left out.
type Total struct {
	Namespace, Entity, Resource string
	Window                      Window
	Start                       int64 // epoch milliseconds
	Shards                      []ShardTotal
	TTL                         int64 // lifetime of the snapshot in case it is new, epoch seconds; set by Decide
}

// ShardTotal is the part of a total that one bucket shard contributed.
type ShardTotal struct {
	Shard   int
	Changes []*stream.Change // by position, never empty
}

// Totals returns the totals of all windows, sorted by namespace, entity,
// resource, kind of window as in windows, and start. The window of a record
// comes from its own creation time.
func Totals(buckets []Bucket, windows []Window) []Total {
	var out []Total
	for len(buckets) > 0 {
		n := 1
		for n < len(buckets) && buckets[n].sibling(buckets[0]) {
			n++
		}
		for _, w := range windows {
			out = append(out, totalsOf(buckets[:n], w)...)
		}
		buckets = buckets[n:]
	}
	return out
}

// totalsOf returns the totals of the shards of one bucket for one kind of
// window, by start.
func totalsOf(shards []Bucket, w Window) []Total {
	var out []Total
	at := -1 // where the record before went
	for _, b := range shards {
		for _, c := range b.Changes {
			if !counts(c) {
				continue
			}
			start := w.Start(c.Created)
			if at < 0 || out[at].Start != start || !out[at].takes(b.Shard) {
				at = slices.IndexFunc(out, func(t Total) bool { return t.Start == start && t.takes(b.Shard) })
			}
			if at < 0 {
				at = len(out)
				out = append(out, Total{
					Namespace: b.Namespace, Entity: b.Entity, Resource: b.Resource, Window: w, Start: start,
				})
			}
			out[at].add(b.Shard, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Total) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

func (t *Total) takes(shard int) bool {
	n := len(t.Shards)
	return n < maxTotalShards || t.Shards[n-1].Shard == shard
}

func (t *Total) add(shard int, c *stream.Change) {
	if n := len(t.Shards); n == 0 || t.Shards[n-1].Shard != shard {
		t.Shards = append(t.Shards, ShardTotal{Shard: shard})
	}
	s := &t.Shards[len(t.Shards)-1]
	s.Changes = append(s.Changes, c)
}

// First returns the lowest sequence number in the total: where to resume if it
// is not written. It is empty only for an empty total.
func (t Total) First() string {
	first := ""
	for _, s := range t.Shards {
		if seq := s.Changes[0].Sequence; first == "" || compareSequences(seq, first) < 0 {
			first = seq
		}
	}
	return first
}

// Empty tells whether there is nothing to write.
func (t Total) Empty() bool { return len(t.Shards) == 0 }

// Except returns what is left of the total when everything that the snapshot
// includes is taken out of it. A nil snapshot includes nothing.
func (t Total) Except(snapshot item.Item) Total {
	out := t
	out.Shards = nil
	for _, s := range t.Shards {
		left := slices.DeleteFunc(slices.Clone(s.Changes), func(c *stream.Change) bool {
			return table.UsageMark(snapshot, s.Shard, position(c))
		})
		if len(left) > 0 {
			out.Shards = append(out.Shards, ShardTotal{s.Shard, left})
		}
	}
	return out
}

// expiry returns when the snapshot may go, epoch seconds: so many days after its
// window is over, or after now if that is later. Counted from its creation, a
// month's snapshot that is kept for a week would be gone, with its watermarks,
// before the month is.
func (t Total) expiry(now int64, days int) int64 {
	return max(now, t.Window.End(t.Start))/1000 + int64(days)*dayMillis/1000
}

// Usage returns the total as it is written.
func (t Total) Usage() table.Usage {
	u := table.Usage{
		Namespace: t.Namespace, Entity: t.Entity, Resource: t.Resource, TTL: t.TTL,
		Window: string(t.Window), Part: t.Window.Part(t.Start),
		Start: time.UnixMilli(t.Start).UTC().Format("2006-01-02T15:04:05Z"),
	}
	for _, s := range t.Shards {
		u.Marks = append(u.Marks, table.Mark{
			Shard: s.Shard, First: position(s.Changes[0]), Last: position(s.Changes[len(s.Changes)-1]),
		})
		u.Events += int64(len(s.Changes))
		for _, c := range s.Changes {
			for _, d := range c.Deltas {
				u.Counts = counted(u.Counts, d)
			}
		}
	}
	slices.SortFunc(u.Counts, func(a, b table.Count) int { return strings.Compare(a.Limit, b.Limit) })
	return u
}

// position returns the place of a change among all of its bucket shard.
func position(c *stream.Change) table.Position {
	return table.Position{Stream: c.Stream, Sequence: c.Sequence}
}

// counted adds the growth of one limit; there are few.
func counted(counts []table.Count, d stream.Delta) []table.Count {
	if d.Limit == bucket.WCU {
		return counts
	}
	for i := range counts {
		if counts[i].Limit == d.Limit {
			counts[i].Tokens = bucket.AddSat(counts[i].Tokens, d.Tokens)
			return counts
		}
	}
	return append(counts, table.Count{Limit: d.Limit, Tokens: d.Tokens})
}
