package usage

import (
	"cmp"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// Extend adds the histories of a batch to the parts; both are sorted, as [Fold] and Extend return
// them. Records that the parts already contain change nothing, wherever and however often they come
// again.
func Extend(parts []Part, histories []History, finest Window) []Part {
	out := make([]Part, 0, len(parts)+len(histories))
	for len(parts) > 0 || len(histories) > 0 {
		order := 1
		if len(parts) > 0 {
			order = -1
			if len(histories) > 0 {
				p, h := &parts[0], &histories[0]
				order = cmp.Or(p.Bucket.Compare(h.Bucket), cmp.Compare(p.Shard, h.Shard))
			}
		}
		n := 0
		for order <= 0 && n < len(parts) && parts[n].Bucket == parts[0].Bucket && parts[n].Shard == parts[0].Shard {
			n++
		}
		shard := slices.Clip(parts[:n])
		parts = parts[n:]
		if order >= 0 {
			for _, c := range histories[0].Changes {
				shard = extend(shard, c, finest)
			}
			histories = histories[1:]
		}
		out = append(out, shard...)
	}
	return out
}

// extend adds one change to the parts of its shard.
func extend(parts []Part, c *stream.Change, finest Window) []Part {
	at := position(c)
	start := finest.Start(c.Created)
	if len(parts) == 0 {
		if !significant(c) {
			return parts
		}
		return append(parts, newPart(c, at, finest))
	}
	p := &parts[len(parts)-1]
	run := p.last()
	switch {
	case at.Compare(run.Last) <= 0:
		return parts // already present
	case run.links(c) && (start <= p.Start || c.Operation == stream.Remove):
		// Time must not go backwards: a record that was created a little before the previous one
		// belongs to the same window.
		run.extend(c, at)
	case !significant(c):
	case start <= p.Start || c.Operation == stream.Remove:
		p.Runs = append(p.Runs, newRun(c, at))
	default:
		if c.Operation != stream.Insert && !run.links(c) {
			p.Runs = append(p.Runs, justBefore(newRun(c, at)))
		}
		next := newPart(c, at, finest)
		if tallyOf(ledger.Mark{}, false, p.Runs).moved { // otherwise no snapshot is written for it
			next.Follows = p.Start
		}
		return append(parts, next)
	}
	return parts
}

func newPart(c *stream.Change, at ledger.Position, finest Window) Part {
	return Part{
		Bucket: bucketOf(c.New), Shard: c.New.State.Shard,
		Start: finest.Start(c.Created), Oldest: c.Created, Clock: c.OldRF, Birth: birth(c, finest),
		Runs: []Run{newRun(c, at)},
	}
}

// creatorsClock is the greatest difference, in milliseconds, between the clock of a client that
// creates an item and the clock that dates records. An item created closer than that to the turn of
// an hour, say at 14:59:55, may belong to either hour.
const creatorsClock = 10_000

// birth returns the start of the window in which the shard of a change was created, or 0 if
// unknown.
func birth(c *stream.Change, finest Window) int64 {
	if c.OldBorn <= 0 || c.OldBorn-creatorsClock/1000 > c.Created/1000 {
		return 0 // no client recorded it, or its clock was far ahead
	}
	start := finest.Start(c.OldBorn*1000 - creatorsClock)
	if start != finest.Start(c.OldBorn*1000+creatorsClock+999) {
		return 0
	}
	return start
}
