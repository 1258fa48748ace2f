// Package shard plans how the shards of a bucket split and merge, and how the
// count of shard 0, which is the truth, is propagated to the others (design D5).
//
// A [Plan] is pure. Next names one step as writes; the caller performs it and reports the outcome
// to the plan. Every step is conditional and may be repeated by anybody at any time; a plan that is
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

// Action is what a step does.
type Action string

// The actions.
const (
	Look     Action = "look"     // ask a shard for its image, by a condition that fails
	Split    Action = "split"    // hand half to the sibling, in a transaction of two
	Merge    Action = "merge"    // take the sibling back, in a transaction of two
	Recount  Action = "recount"  // the sibling exists already: only the count changes
	Discount Action = "discount" // siblings are missing: only the count changes, in a transaction that checks that
	Restore  Action = "restore"  // put back a missing shard, in a transaction of two
)

// Step is one call: a single write, or a transaction when there are several.
type Step struct {
	Action Action
	Shard  int
	Writes []item.Write
}

// Transaction reports whether the writes go out as one transaction.
func (s Step) Transaction() bool { return len(s.Writes) > 1 }

// String returns the step for logs and tests.
func (s Step) String() string { return fmt.Sprintf("%s %d", s.Action, s.Shard) }

// maxRefusals is how often one shard may turn out different from its image
// before the plan gives up on it; somebody else is at work there.
const maxRefusals = 8

// Plan brings shards of one bucket to a count. Its images may be old: it ends as soon as shard 0 turns
// out to be gone, or to have neither the count that the plan was made for nor one on the way to the target.
type Plan struct {
	about  table.Shard // the shard that it was made from
	target int
	last   int  // the last shard to look at
	falls  bool // shards may have to be merged, not only split
	strays bool // merge shards beyond the target too
	asks   bool // the target is what shard 0 says when it is asked
	did    bool // it has changed shard 0
	shrink func(zero table.Shard, now int64) (count int)

	// By shard: its newest image; whether it was found missing; the count at which its
	// sibling exists already; how often it was not as its image.
	known    map[int]table.Shard
	absent   map[int]bool
	recount  map[int]int
	refusals map[int]int
}

// Double returns the plan that splits shard 0 only, from the count of its image
// to twice the count. The aggregator sees it in the stream and goes on.
func Double(zero table.Shard) *Plan {
	return newPlan(zero, 2*zero.State.Count())
}

// Shrink returns the plan that merges shard 0 only, down to a count. The aggregator sees
// it in the stream and goes on. Images of other shards save a step each. Where others have
// raised the count and split nothing, it lowers it to the number of existing shards.
func Shrink(zero table.Shard, count int, others ...table.Shard) *Plan {
	p := newPlan(zero, count)
	p.falls = true
	p.add(others)
	return p
}

// Follow returns the plan that splits or merges one shard other than 0 until it has
// the count that shard 0 has.
func Follow(b table.Shard, count int) *Plan {
	p := newPlan(b, count)
	p.last, p.falls = b.State.Shard, true
	return p
}

// FollowAsking is Follow where the count that shard 0 has is not known: it looks at shard 0
// first.
func FollowAsking(b table.Shard) *Plan {
	p := Follow(b, 0)
	p.asks = true
	return p
}

// Shrinking lets a plan that asks for shard 0 merge that first, if the count that shrink
// returns for it is lower than its own. The aggregator sees it in the stream and goes on.
func (p *Plan) Shrinking(shrink func(zero table.Shard, now int64) (count int)) *Plan {
	p.shrink = shrink
	return p
}

// Propagate returns the plan that brings every shard to the count of the image of shard 0. Shards
// that should not be there are merged into those whose share includes theirs. Images of other
// shards, from the same batch say, save a step each; a shard beyond the count is found only if its
// image is among them.
func Propagate(zero table.Shard, others ...table.Shard) *Plan {
	p := newPlan(zero, zero.State.Count())
	p.last = p.target - 1
	p.falls, p.strays = true, true
	p.add(others)
	return p
}

// Sweep makes a plan look for shards beyond its count too, up to a count that the
// bucket may have had before. It costs a write for each.
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

// Next returns the next step, or false when there is nothing left to do. Parents come
// before the shards that are split from them. draw is random, for the generation of a shard
// that has to be created.
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

// stray returns the step that merges a shard beyond the target into the shard that it would be
// split from. It is there because shard 0 was deleted and created anew while it lived on, or
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

// down returns the step that brings a shard to half its count.
func (p *Plan) down(k int, b table.Shard, now int64) (Step, bool) {
	half := 1
	for 2*half < b.State.Shards {
		half *= 2
	}
	s := k + half
	other, known := p.known[s]
	switch {
	case p.refusals[s] >= maxRefusals: // others are at work on the sibling
		return Step{}, false
	case p.absent[s]: // it hands nothing over: only the count falls
		return p.discount(k, half, now), true
	case !known:
		return p.look(s), true
	case other.State.Shards > 2*half: // it has split since: it comes down first
		return p.down(s, other, now)
	}
	return Step{Merge, k, p.heeding(k, table.Merge(b, other, half, now))}, true
}

// discount returns the step that lowers the count of a shard whose sibling is missing,
// to half or further: at once to the count of which siblings are there. Transient
// counts would be seen, and cut what the shard holds. Shard 0 goes below the target of
// the plan, because only others can have raised its count and split nothing.
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

// heeding adds a check to the writes that merge into a shard other than 0: that shard 0
// still has the count that the plan was made from.
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
	if p.refusals[k] >= maxRefusals { // others are at work on it
		return Step{}, false
	}
	b, known := p.known[k]
	zero, whole := p.known[0]
	switch {
	case p.absent[k] && !(whole && p.splitOff(k)): // its parent still holds its share
		return Step{}, false
	case p.absent[k]: // its share is nobody's
		return Step{Restore, k, table.Restore(zero, k, p.target, now, draw)}, true
	case !known:
		return p.look(k), true
	case p.falls && b.State.Shards > max(p.target, bucket.CountWith(k)): // it is ahead
		return p.down(k, b, now)
	case b.State.Count() >= p.target: // it is there
		return Step{}, false
	case p.recount[k] == b.State.Count(): // it is behind, but its sibling exists: there is nothing to hand over
		return Step{Recount, k, []item.Write{table.Recount(b, now)}}, true
	}
	return Step{Split, k, p.sure(b, table.Split(b, now))}, true
}

// sure adds a check to the writes that split a shard other than 0: that shard 0 still has
// the count. Else shard 0 may have merged since, and the shard with it. A shard that began no
// later than the image of shard 0 needs no check.
func (p *Plan) sure(b table.Shard, writes []item.Write) []item.Write {
	zero, known := p.known[0]
	if b.State.Shard == 0 || known && table.Began(b.Generation) <= table.Began(zero.Generation) {
		return writes
	}
	return append(writes, table.Counts(p.about, p.target))
}

// splitOff reports whether the parent of shard k is known to have split it off, so
// that restoring it when it is missing hands out no share twice.
func (p *Plan) splitOff(k int) bool {
	parent, known := p.known[bucket.SplitParent(k)]
	return known && parent.State.Shards >= bucket.CountWith(k)
}
