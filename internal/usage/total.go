package usage

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// maxTotalShards is how many shards' runs one snapshot update carries: each adds
// a condition, and DynamoDB takes expressions of 4 KB. Buckets with more shards
// than that active take more than one update.
const maxTotalShards = 32

// Total is what is to be counted in one usage snapshot: the runs that fall into
// its window, by bucket shard.
type Total struct {
	Namespace, Entity, Resource string
	Window                      Window
	Start                       int64 // epoch milliseconds
	Chains                      []Chain
	TTL                         int64 // lifetime of the snapshot in case it is new, epoch seconds

	// Finest says that no kind of window is shorter.
	Finest bool
	// Current says that the snapshot is written whenever there is something to
	// count, so that it has most likely counted as far as the runs begin. Then
	// it is written without being looked at first.
	Current bool
	// Careful says that it is looked at all the same.
	Careful bool
	// Over says that its window is over, so that later records of its shards may
	// have been counted before it. Then a creation too is looked up in earlier
	// snapshots: it may be what one of them was completed with.
	Over bool
	// Kept is up to when windows ended of whose snapshots it is not certain that they
	// are still kept, epoch milliseconds.
	Kept int64
	// Begun says that what was consumed before the first records is counted as far as
	// it can be.
	Begun bool
}

// Chain is the runs of one bucket shard in one window.
type Chain struct {
	Shard  int
	Fresh  bool  // the shard was charged in the window before
	Closed int64 // start of the window before, which is written first and holds everything up to here; 0: it may not
	Begun  int64 // start of the window in which the shard was created; 0: not known
	Runs   []Run

	// Of a longer kind of window: what finest snapshots had counted before, and
	// the start of the window of this kind that it lies in.
	ahead      *Run
	aheadStart int64
}

// Totals returns the totals of parts of one bucket for one kind of window, by
// start. finest reports whether it is the kind that the parts were cut by.
func Totals(parts []Part, w Window, finest bool) []Total {
	var out []Total
	for i := range parts {
		p := &parts[i]
		start := w.Start(p.Start)
		at := slices.IndexFunc(out, func(t Total) bool { return t.Start == start && t.takes(p.Shard) })
		if at < 0 {
			at = len(out)
			out = append(out, Total{
				Namespace: p.Namespace, Entity: p.Entity, Resource: p.Resource, Window: w, Start: start, Finest: finest,
			})
		}
		out[at].add(p)
	}
	slices.SortStableFunc(out, func(a, b Total) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	return out
}

// takes reports whether there is room for the shard. Its chain, if there is one, is
// the last: parts come by shard.
func (t *Total) takes(shard int) bool {
	n := len(t.Chains)
	return n < maxTotalShards || t.Chains[n-1].Shard == shard
}

func (t *Total) add(p *Part) {
	if n := len(t.Chains); n > 0 && t.Chains[n-1].Shard == p.Shard {
		t.Chains[n-1].Runs = append(slices.Clip(t.Chains[n-1].Runs), p.Runs...)
		return
	}
	c := Chain{Shard: p.Shard, Fresh: p.Clock >= t.Start, Begun: p.Begun, Runs: p.Runs}
	if p.Closed != 0 && t.Window.Start(p.Closed) < t.Start {
		c.Closed = p.Closed
	}
	t.Chains = append(t.Chains, c)
}

// From returns the start of the window, RFC 3339, UTC.
func (t *Total) From() string { return table.Timestamp(t.Start) }

// Key returns the key of the snapshot.
func (t *Total) Key() item.Key {
	return table.UsageKey(t.Namespace, t.Entity, t.Resource, t.Window.Part(t.Start))
}

// Expiry returns when the snapshot may go, epoch seconds: so many days after its
// window is over, or after now if that is later. Counted from its creation, a
// month's snapshot that is kept for a week would be gone, with its marks, before
// the month is.
func (t *Total) Expiry(now int64, days int) int64 {
	return max(now, t.Window.End(t.Start))/1000 + int64(days)*dayMillis/1000
}

// usage returns the fields of the total that do not depend on what is counted.
func (t *Total) usage() table.Usage {
	return table.Usage{
		Namespace: t.Namespace, Entity: t.Entity, Resource: t.Resource, TTL: t.TTL,
		Window: string(t.Window), Part: t.Window.Part(t.Start),
		Start: time.UnixMilli(t.Start).UTC().Format("2006-01-02T15:04:05Z"),
	}
}

// addTally counts a tally into a usage.
func addTally(u *table.Usage, t tally) {
	u.Events += t.events
	for _, c := range t.counts {
		i, found := slices.BinarySearchFunc(u.Counts, c.Limit,
			func(a table.Count, limit string) int { return strings.Compare(a.Limit, limit) })
		if !found {
			u.Counts = slices.Insert(u.Counts, i, table.Count{Limit: c.Limit})
		}
		u.Counts[i].Tokens = bucket.AddSat(u.Counts[i].Tokens, c.Tokens)
	}
}
