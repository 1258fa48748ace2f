package limiter

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// want is what a request needs of a bucket, worked out from the request and the
// configuration.
type want struct {
	namespace string
	name      name
	costs     []table.Cost // of all limits in force
	life      table.Lifetime
	read      int64  // when the limits were read, epoch ms; zero if the call gave them
	parent    string // with cascade, what the bucket tells other clients
	cascade   bool
}

// stored reports whether the limits in force are stored exactly like this.
func (w want) stored(s bucket.State) bool {
	return !slices.ContainsFunc(w.costs, func(c table.Cost) bool { return !s.Has(c.Limit) })
}

// action is what to do next about a request.
type action int

const (
	deny    action = iota // no shard can cover it, and asking again is no use yet
	never                 // no shard can ever hold that much
	write                 // send a write to a shard
	several               // take the costs from several shards
)

// choice is the decision about one attempt.
type choice struct {
	action action
	shard  int
	look   bool // the write is sent to learn the image, not because that one covers the costs
	adopt  bool // the write takes nothing: it brings the limits in force that deny
	owe    bool // the costs are taken into debt
	last   bool // somebody of the group is denied if the write is refused
	at     int64
	short  string // the limit that takes longest, when denied
	guess  bool   // the instant is an estimate
	full   bool   // the queue of those who wait is full
	taken  bool   // the image covers the costs, but others will have taken them: it denies until the next look
	asks   bool   // the write is the look at a shard of which the image is too old to tell what others take
	// repeats is set for a denial as others before it, since nothing new was seen.
	repeats bool
}

// decider decides one attempt from what is known. It performs no I/O; now and the
// random number that picks the shard are given. The lock is held.
type decider struct {
	*known
	want    want
	now     int64
	denyFor int64   // how long, in ms, an image may deny without asking
	trip    float64 // how long, in ms, a write and its answer are under way
	attempt *attempt
	pick    uint64
	asking  bool // the write that is planned is the look that choice.asks has chosen
}

// decide picks a shard to write to, or denies. Shards are tried from one on that this
// process visits for a while, else from a random one, so that requests spread over them:
//
//	its image covers the costs     write to it
//	it has no image                write to it, which brings one; to two of them at most
//	its image does not cover them  try the next shard
//
// When all were tried in vain, the request is denied without a call (D4), unless the
// shards cover the costs together, or the images are too old to deny.
func (d decider) decide() choice {
	if z := d.shards[0]; z != nil && z.absent { // there is no bucket: the write creates it
		return choice{action: write}
	}
	d.need()
	start, soonest := d.first(), choice{action: never, at: bucket.Never}
	stale, staleAt, taken := -1, int64(bucket.Never), false
	var tried map[int]bool
	if d.count > 1 {
		tried = make(map[int]bool, d.count)
	}
	for i := range d.count {
		k := d.nearest((start + i) % d.count)
		if tried[k] {
			continue
		}
		if tried != nil {
			tried[k] = true
		}
		s := d.shards[k]
		if !s.imaged() {
			if len(d.attempt.asked) < maxAsked && !slices.Contains(d.attempt.asked, k) {
				return choice{action: write, shard: k}
			}
			continue
		}
		got := d.evaluate(k, s)
		if got.action == write {
			d.visit(k)
			return got
		}
		soonest, taken = sooner(soonest, got), taken || got.taken
		if d.outlived(s, d.denyFor) && (stale < 0 || got.at < staleAt ||
			got.at == staleAt && d.seenAt(s) < d.seenAt(d.shards[stale])) {
			stale, staleAt = k, got.at
		}
	}
	switch {
	case d.count > 1 && soonest.action == never && !d.attempt.spread && d.together() <= d.now:
		return choice{action: several} // larger than a share; all shards are read for it, which is better than a look
	case d.outdated(): // tokens were put into the bucket since: read all shards
		return choice{action: several}
	case stale >= 0 && d.attempt.calls == 0 && d.again(d.lookedAt):
		return choice{action: write, shard: stale, look: true} // one for all: recovers first, or has the oldest image
	case soonest.action == deny && d.adopts(d.shards[soonest.shard]): // bring the limits before they deny
		return choice{action: write, shard: soonest.shard, adopt: true}
	case soonest.action == never: // several are needed, and shards refill and merge by the limits that they have stored
		for k := range d.count {
			if d.adopts(d.shards[k]) {
				return choice{action: write, shard: k, adopt: true}
			}
		}
	}
	if taken { // if others do leave it, one shard has it: a transaction finds no more
		return soonest
	}
	return d.uncovered(soonest)
}

// uncovered decides when no single shard covers the costs: the denial that ends
// soonest, unless several shards cover them together.
func (d decider) uncovered(soonest choice) choice {
	if d.count == 1 {
		if soonest.action == never && d.repair() != nil { // shard 0 has a count that is not believed
			soonest = d.mending(soonest)
		}
		return soonest
	}
	switch at := d.together(); {
	case at <= d.now && !d.attempt.spread: // two shards that hold 3 each cover 5
		return choice{action: several}
	case at < soonest.at: // they will, before any of them does alone
		soonest.action, soonest.at = deny, max(at, d.now+1)
	case soonest.action == never:
		// The shares are fractions of tokens that do not add up to so many whole ones:
		// shards merge now (see repair), and then it can be had.
		soonest = d.mending(soonest)
	}
	return soonest
}

// adopts reports whether the limits that deny have to be brought in force first. A
// denial by limits that are not stored might never end: what is stored refills by
// the old ones, up to the old capacity. Example: 10 a day are stored and 10 a second in
// force. Denied for 100 ms, the caller would come back to a bucket that needs hours.
func (d decider) adopts(s *seen) bool {
	return s.imaged() && !d.want.stored(s.image.State) && !d.attempt.adopted && d.again(d.adoptedAt)
}

// need remembers the largest costs seen, which keep the bucket from being split so
// far that they could not be had.
func (d decider) need() {
	for _, c := range d.want.costs {
		if c.Milli > d.largest[c.Limit.Name] {
			if d.known.largest == nil {
				d.known.largest = make(map[string]int64, len(d.want.costs))
			}
			d.known.largest[c.Limit.Name] = c.Milli
		}
	}
}

// mending returns the denial of what can be had once shards have merged.
func (d decider) mending(c choice) choice {
	c.action, c.at, c.guess = deny, bucket.AddSat(d.now, mergeTime), true
	return c
}

// mergeTime is about how long, in ms, it takes until shards have merged.
const mergeTime = 1000

// sooner returns the denial that ends first; one that never ends is returned only if
// both are so.
func sooner(a, b choice) choice {
	if b.action == deny && (a.action == never || b.at < a.at) || a.short == "" {
		return b
	}
	return a
}

// nearest returns the shard to use for pick k: k itself, or the shard that it is split
// from when it is not there. Example: of four shards, shard 3 was never seen. As long as
// shard 1, of which it is split off, counts two shards itself, that one still has the
// share of both and is used; once it counts four, shard 3 exists and is asked.
func (d decider) nearest(k int) int {
	for k > 0 {
		s := d.shards[k]
		if s.imaged() {
			return k
		}
		gone := s != nil && s.absent && !d.outlived(s, absentFor)
		parent := d.shards[bucket.SplitParent(k)]
		if !gone && (!parent.imaged() || parent.image.State.Shards >= bucket.CountWith(k)) {
			return k
		}
		k = bucket.SplitParent(k)
	}
	return 0
}

// absentFor is how long, in ms, a missing shard is not asked for again.
const absentFor = 10_000

// outlived reports whether an image is older than ms, or was seen when the clock
// showed a later time than now.
func (d decider) outlived(s *seen, ms int64) bool {
	return d.now-s.at >= ms || d.now < s.at
}

// again reports whether what was last done at an instant may be done again: when an image
// may not deny for any longer, or the clock has been set back since.
func (d decider) again(last int64) bool { return d.now-last >= d.denyFor || d.now < last }

// seenAt returns when an image was seen; one of a later time than now is the oldest.
func (d decider) seenAt(s *seen) int64 {
	if s.at > d.now {
		return 0
	}
	return s.at
}

// evaluate decides on one shard from its image.
func (d decider) evaluate(k int, s *seen) choice {
	v, short := s.verdict(d.want, d.now)
	out := choice{shard: k, at: v.At, short: short}
	switch {
	case v.Granted:
		out.action = write
		at, short := d.expected(s)
		out.asks = d.count > 1 && s.contended(d.now) && d.outlived(s, d.denyFor)
		if at > d.now && !(out.asks && (d.asking || d.again(d.lookedAt))) { // but others will have taken it by now
			out.action, out.at, out.short, out.taken, out.asks = deny, at, short, true, false
		}
	case s.clockless(d.now):
		out.action = write // without a clock to refill from, the denial would never end
	case v.At == bucket.Never: // a cost exceeds the share
		out.action = never
	}
	return out
}

func random() uint64 { return store.Random() }
