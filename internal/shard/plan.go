// Package shard plans how the shards of a bucket split and merge, and how the count of shard 0,
// which is authoritative, reaches the other shards (design D5).
//
// A [Plan] is pure. Next returns one step as writes; the caller performs it and reports the outcome
// to the plan. Every step is conditional, and any process may repeat it at any time. A plan that is
// abandoned half-way leaves shares that add up.
package shard

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Action is the kind of a step.
type Action string

// The actions.
const (
	Look     Action = "look"     // read a shard's image with a write whose condition fails
	Split    Action = "split"    // hand half of the tokens to the sibling, in a transaction of two
	Merge    Action = "merge"    // take the sibling back, in a transaction of two
	Recount  Action = "recount"  // the sibling already exists: change only the count
	Discount Action = "discount" // siblings are missing: change only the count, in a transaction that checks this
	Restore  Action = "restore"  // restore a missing shard, in a transaction of two
)

// Step is one call: a single write, or a transaction of several.
type Step struct {
	Action Action
	Shard  int
	Writes []item.Write
}

// Transaction reports whether the writes go out as one transaction.
func (s Step) Transaction() bool { return len(s.Writes) > 1 }

// String returns the step for logs and tests.
func (s Step) String() string { return fmt.Sprintf("%s %d", s.Action, s.Shard) }

// maxRefusals is how often a shard may differ from its image before the plan gives up on it,
// because another process is changing it.
const maxRefusals = 8

// Plan changes shards of one bucket to a count. Its images may be old: it ends as soon as shard 0
// is gone, or has a count that is neither the one that the plan was made for nor one on the way to
// the target.
type Plan struct {
	about  table.Shard // the shard from which it was made
	target int
	last   int  // the last shard to look at
	falls  bool // shards may need merging, not only splitting
	strays bool // merge shards beyond the target too
	asks   bool // the target is the count of shard 0, which must be read
	did    bool // it has changed shard 0
	shrink func(zero table.Shard, now int64) (count int)

	// By shard: the newest image; whether it is missing; the count at which its sibling already
	// exists; how often it differed from its image.
	known    map[int]table.Shard
	absent   map[int]bool
	recount  map[int]int
	refusals map[int]int
}

// Double returns the plan that splits only shard 0, from its image's count to twice that count. The
// aggregator sees the split in the stream and continues.
func Double(zero table.Shard) *Plan {
	return newPlan(zero, 2*zero.State.Count())
}

// Shrink returns the plan that merges only shard 0, down to a count. The aggregator sees the merge
// in the stream and continues. Each image of another shard saves a step. If another client has
// raised the count without splitting, it lowers the count to the number of existing shards.
func Shrink(zero table.Shard, count int, others ...table.Shard) *Plan {
	p := newPlan(zero, count)
	p.falls = true
	p.add(others)
	return p
}

// Follow returns the plan that splits or merges one shard other than 0 until it has the count of
// shard 0.
func Follow(b table.Shard, count int) *Plan {
	p := newPlan(b, count)
	p.last, p.falls = b.State.Shard, true
	return p
}

// FollowAsking is Follow if the count of shard 0 is unknown: it looks at shard 0 first.
func FollowAsking(b table.Shard) *Plan {
	p := Follow(b, 0)
	p.asks = true
	return p
}

// Shrinking makes a plan from FollowAsking merge shard 0 first if shrink returns a lower count for
// it. The aggregator sees the merge in the stream and continues.
func (p *Plan) Shrinking(shrink func(zero table.Shard, now int64) (count int)) *Plan {
	p.shrink = shrink
	return p
}

// Propagate returns the plan that brings every shard to the count in shard 0's image. Surplus
// shards are merged into the shards whose share includes theirs. Each image of another shard, for
// example from the same batch, saves a step. A shard beyond the count is found only if its image is
// given.
func Propagate(zero table.Shard, others ...table.Shard) *Plan {
	p := newPlan(zero, zero.State.Count())
	p.last = p.target - 1
	p.falls, p.strays = true, true
	p.add(others)
	return p
}

// Sweep makes a plan also look for shards beyond its count, up to a count that the bucket may have
// had before. It costs one write per shard.
func (p *Plan) Sweep(count int) *Plan {
	p.last = max(p.last, count-1)
	return p
}

func (p *Plan) add(others []table.Shard) {
	for _, b := range others {
		p.known[b.State.Shard] = b
	}
}

func newPlan(about table.Shard, target int) *Plan {
	return &Plan{
		about: about, target: target, known: map[int]table.Shard{about.State.Shard: about},
		absent: map[int]bool{}, recount: map[int]int{}, refusals: map[int]int{},
	}
}

// Next returns the next step, or false if nothing is left to do. Parents come before the shards
// that are split from them. draw is random, for the generation of a shard that must be created.
func (p *Plan) Next(now int64, draw uint64) (Step, bool) {
	if zero, known := p.known[0]; p.asks && known {
		p.asks, p.target = false, zero.State.Count()
		if p.shrink != nil {
			if count := p.shrink(zero, now); count < p.target {
				*p = *Shrink(zero, count, p.Images()...)
			}
		}
	}
	switch {
	case p.over():
		return Step{}, false
	case p.asks:
		return p.look(0), true
	}
	for k := p.about.State.Shard; k <= p.last; k++ {
		if step, ok := p.step(k, now, draw); ok {
			return step, true
		}
	}
	return p.stray(now)
}

// stray returns the step that merges a shard beyond the target into the shard from which it would
// be split. Such a shard exists because shard 0 was deleted and created again while it remained, or
// because a merge was left half-way.
func (p *Plan) stray(now int64) (Step, bool) {
	all := slices.Sorted(maps.Keys(p.known))
	for _, k := range slices.Backward(all) {
		if !p.strays || k < p.target || p.refusals[k] >= maxRefusals {
			continue
		}
		b, parent := p.known[k], bucket.SplitParent(k)
		for parent > 0 && p.absent[parent] {
			parent = bucket.SplitParent(parent)
		}
		into, known := p.known[parent]
		switch {
		case p.refusals[parent] >= maxRefusals:
			continue
		case !known:
			return p.look(parent), true
		case b.State.Count() > bucket.CountWith(k):
			return p.down(k, b, now)
		}
		return Step{Merge, parent, p.heeding(parent, table.Merge(into, b, into.State.Shards, now))}, true
	}
	return Step{}, false
}

// down returns the step that lowers a shard's count to half.
func (p *Plan) down(k int, b table.Shard, now int64) (Step, bool) {
	half := 1
	for 2*half < b.State.Shards {
		half *= 2
	}
	s := k + half
	other, known := p.known[s]
	switch {
	case p.refusals[s] >= maxRefusals: // other processes are changing the sibling
		return Step{}, false
	case p.absent[s]: // it hands over nothing: only the count falls
		return p.discount(k, half, now), true
	case !known:
		return p.look(s), true
	case other.State.Shards > 2*half: // it has split since: it merges first
		return p.down(s, other, now)
	}
	return Step{Merge, k, p.heeding(k, table.Merge(b, other, half, now))}, true
}

// discount returns the step that lowers the count of a shard whose sibling is missing, to half or
// below: directly to the count whose siblings exist. Intermediate counts would be visible, and
// reduce the tokens of the shard. Shard 0 may go below the plan's target, because only another
// client can have raised its count without splitting.
func (p *Plan) discount(k, count int, now int64) Step {
	b, least := p.known[k], max(p.target, bucket.CountWith(k))
	if k == 0 && !p.strays {
		least = 1
	}
	for ; count/2 >= least; count /= 2 {
		s := k + count/2
		if _, there := p.known[s]; there || p.refusals[s] >= maxRefusals {
			break
		}
		if !p.absent[s] {
			return p.look(s)
		}
	}
	return Step{Discount, k, p.heeding(k, table.Discount(b, count, now))}
}

// heeding adds a check to writes that merge into a shard other than 0: shard 0 must still have the
// count from which the plan was made.
func (p *Plan) heeding(k int, writes []item.Write) []item.Write {
	if k == 0 {
		return writes
	}
	count := p.target
	if zero, known := p.known[0]; known {
		count = zero.State.Count()
	}
	return append(writes, table.Counts(p.about, count))
}

func (p *Plan) look(k int) Step {
	key := layout.BucketKey(p.about.Namespace, p.about.Entity, p.about.Resource, k)
	return Step{Look, k, []item.Write{table.Look(key, p.target)}}
}

func (p *Plan) step(k int, now int64, draw uint64) (Step, bool) {
	if p.refusals[k] >= maxRefusals { // other processes are changing it
		return Step{}, false
	}
	b, known := p.known[k]
	zero, whole := p.known[0]
	switch {
	case p.absent[k] && !(whole && p.splitOff(k)): // its parent still has its share
		return Step{}, false
	case p.absent[k]: // no shard has its share
		return Step{Restore, k, table.Restore(zero, k, p.target, now, draw)}, true
	case !known:
		return p.look(k), true
	case p.falls && b.State.Shards > max(p.target, bucket.CountWith(k)): // it is ahead
		return p.down(k, b, now)
	case b.State.Count() >= p.target: // it is done
		return Step{}, false
	case p.recount[k] == b.State.Count(): // it is behind, but its sibling exists: there is nothing to hand over
		return Step{Recount, k, []item.Write{table.Recount(b, now)}}, true
	}
	return Step{Split, k, p.sure(b, table.Split(b, now))}, true
}

// sure adds a check to writes that split a shard other than 0: shard 0 must still have the count.
// Otherwise shard 0 may have merged since, and the shard with it. A shard that began no later than
// the image of shard 0 needs no check.
func (p *Plan) sure(b table.Shard, writes []item.Write) []item.Write {
	zero, known := p.known[0]
	if b.State.Shard == 0 || known && table.Began(b.Generation) <= table.Began(zero.Generation) {
		return writes
	}
	return append(writes, table.Counts(p.about, p.target))
}

// splitOff reports whether the parent of shard k has certainly split it off, so that restoring the
// missing shard hands out no share twice.
func (p *Plan) splitOff(k int) bool {
	parent, known := p.known[bucket.SplitParent(k)]
	return known && parent.State.Shards >= bucket.CountWith(k)
}
