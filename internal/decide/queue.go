package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request that waits takes its costs at once, into debt, and may go on when the level is back at
// zero. The requests that owe are the queue of a bucket, and their debt is bounded.

// behind turns the denial of a request that waits into a write that takes the costs into debt, on
// the shard where the debt is paid back first. If no single shard can hold the costs, it writes to
// all of them. Example: 3 tokens are there, 10 are refilled per second. A cost of 8 leaves a level
// of -5, which is back at zero in half a second. It stays a denial if the request does not wait
// that long, or if more than a capacity is owed already.
func (d decider) behind(c Choice) Choice {
	out := Choice{Do: Deny, Shard: -1, at: bucket.Never}
	for n := range d.count { // in order: of two that pay back at one instant it is the first
		s := d.shards[n]
		if !s.imaged() {
			continue
		}
		if v, short := s.covers(d.want, d.now); out.Shard < 0 || v.At < out.at {
			out.Shard, out.at, out.Limit = n, v.At, short
		}
	}
	if out.Shard < 0 || d.attempt.Rounds >= 2*MaxRounds { // nothing is known to owe to, or others keep winning
		c.full = c.Do == Deny
		return c
	}
	together := out.at == bucket.Never && d.count > 1
	room, full, crowded := d.room(out.Shard, together)
	if together {
		out.at = max(c.at, d.now)
	}
	// Slots may be given back at any time: requests for them stand in line.
	owed, _ := table.Find(d.want.Costs, out.Limit)
	late := out.at > d.attempt.Until && !owed.Limit.Returns()
	full = full || d.attempt.InLine
	switch {
	case (late || full) && c.Do == Look && !d.attempt.InLine: // the image is old: ask before denying
		return c
	case late: // it would wait for too long
		return out
	case full:
		return Choice{Do: Deny, full: true, at: room, Limit: crowded}
	case together: // each shard owes its part
		out.Do = Several
	default: // the shard where the debt is paid back first owes all
		out.Do = Take
	}
	out.Owe = true
	return out
}

// room returns the instant from which the queue of a shard, or of all shards, has room by their
// images. full says that it has none now. Costs that this process has under way can fill it for a
// moment, too.
func (d decider) room(shard int, all bool) (at int64, full bool, limit string) {
	for n, s := range d.shards {
		if n >= d.count || !s.imaged() || n != shard && !all {
			continue
		}
		then, by := RoomIn(s.image, d.want, func(string) int64 { return 0 })
		soon, _ := RoomIn(s.image, d.want, s.underWay.of)
		if full = full || soon > d.now; then > at {
			at, limit = then, by
		}
	}
	return at, full, limit
}

// RoomIn returns the instant from which the queue of a shard has room: when earlier requests owe no
// more than its capacity of any limit. So the last one to enter waits for at most two capacities. A
// limit that may not be owed, see [table.Cost.Owed], has room when it covers the costs. less
// returns the tokens taken that the image does not show. Example: a level of -25 with a capacity of
// 20 has room when 5 tokens are refilled. It returns 0 if there has been room all along, and
// otherwise names the limit.
func RoomIn(b table.Shard, w Want, less func(limit string) int64) (at int64, limit string) {
	for _, c := range w.Costs {
		i := b.State.Index(c.Limit.Name)
		if i < 0 || c.Limit.Soft {
			continue
		}
		sl, r := b.State.Slots[i], b.State.RateOf(c.Limit)
		level, least := bucket.SubSat(sl.Tokens, less(c.Limit.Name)), -r.Capacity
		if !c.Owed() {
			least = c.Need(b.State)
		}
		if need := b.State.WaitWith(c.Limit, i, level, least); need > 0 {
			if then := bucket.AddSat(b.State.RF, need); then > at {
				at, limit = then, c.Limit.Name
			}
		}
	}
	return at, limit
}

// PaidBack returns the instant from which the levels of some limits are back at zero.
func PaidBack(b table.Shard, limits []string) int64 {
	at := int64(0)
	for _, l := range limits {
		if i := b.State.Index(l); i >= 0 && b.State.Slots[i].Tokens < 0 && !b.State.Slots[i].Soft {
			sl := b.State.Slots[i]
			at = max(at, bucket.AddSat(b.State.RF, b.State.WaitWith(sl.Limit, i, sl.Tokens, 0)))
		}
	}
	return at
}
