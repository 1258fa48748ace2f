package limiter

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// grow splits a shard where this process is the one that sees the need: shard 0
// when the write meter of the shard just written is exhausted, or the shard just
// written when it is behind the count of shard 0. It is best effort: the request it
// follows is granted already and does not wait for it, every step is conditional, and
// the aggregator does the same.
func (l *Limiter) grow(ctx context.Context, k *known, b table.Shard) {
	if len(b.Partial) > 0 { // what is stored in part cannot be divided
		return
	}
	plan, count := l.growth(k, b)
	l.work(ctx, name{b.Entity, b.Resource}, plan, count)
}

// judge decides about a request by the limits that are in force, which it returns too.
// When it denies, it has a count of shards repaired at which requests are denied that
// should not be; a denial like others before it has nothing new to tell.
func (l *Limiter) judge(ctx context.Context, k *known, asked want, tries *attempt) (want, choice, error) {
	k.mu.Lock()
	now := l.now()
	w, yielded := k.inForce(asked, now)
	c, refusal := l.decide(k, w, now, tries)
	var plan *shard.Plan
	if refusal != nil && !c.repeats {
		if plan = k.repair(); plan == nil {
			plan = k.complete()
		}
	}
	count := k.count
	k.mu.Unlock()
	if yielded {
		l.tellYield(ctx, w)
	}
	l.work(ctx, w.name, plan, count)
	return w, c, refusal
}

// work carries a plan out in the background, one at a time for each bucket.
func (l *Limiter) work(ctx context.Context, n name, plan *shard.Plan, before int) {
	if plan == nil {
		return
	}
	if _, busy := l.growing.LoadOrStore(n, true); busy {
		return // another goroutine of this process is at it
	}
	l.background.Go(func() {
		defer l.growing.Delete(n)
		ctx := l.bounded(context.WithoutCancel(ctx))
		defer ctx.end()
		given := plan.Images()
		steps, err := shard.Run(ctx, l.store, plan, l.now)
		if err != nil {
			l.tell(ctx, Event{Kind: EventUpkeep, Entity: n.entity, Resource: n.resource, Err: outcome("split", n, err)})
		}
		now := l.now()
		l.images.gone(n, plan.Absent(), now)
		for _, image := range slices.Backward(plan.Images()) { // shard 0 last: its count is the true one
			if !slices.ContainsFunc(given, func(g table.Shard) bool { return same(g, image) }) {
				l.images.see(image, now, unsent)
			} // else it is no news, and must not look fresh: who never looks again waits for ever
			if steps > 0 && image.State.Shard == 0 && image.State.Shards != before {
				l.tell(ctx, splitOrMerge(n, before, image.State.Shards))
			}
		}
	})
}

// splitOrMerge is the event of a bucket that has more shards than before, or fewer.
func splitOrMerge(n name, before, after int) Event {
	e := Event{Kind: EventSplit, Entity: n.entity, Resource: n.resource, Shards: after}
	if after < before {
		e.Kind = EventMerge
	}
	return e
}

// growth returns the plan that the image of the shard just written asks for, and the
// count of shards that is known.
func (l *Limiter) growth(k *known, b table.Shard) (*shard.Plan, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if plan := k.repair(); plan != nil {
		return plan, k.count
	}
	return l.grown(k, b), k.count
}

// grown is growth where nothing is to be repaired. The lock is held.
func (l *Limiter) grown(k *known, b table.Shard) *shard.Plan {
	if zero := k.shards[0]; b.State.Shards < k.count && b.State.Shards > 0 {
		if zero.imaged() && younger(b, zero.image) { // it may have merged since shard 0 was seen, or be left behind
			return shard.FollowAsking(b)
		}
		return shard.Follow(b, k.count)
	}
	i := b.State.Index(bucket.WCU)
	if i < 0 {
		return nil
	}
	// An add moves no clock: the meter is as old as the refill instant.
	if level, _ := b.State.LevelAt(i, l.now()); level >= bucket.WCUPerWrite {
		return nil
	}
	zero := k.shards[0]
	if !zero.imaged() || len(zero.image.Partial) > 0 || zero.image.State.Shards != k.count ||
		!zero.image.State.CanSplit(l.opts.MaxShards) || !zero.image.State.Holds(2*k.count, k.needs(zero.image.State)) {
		return nil
	}
	return shard.Double(zero.image)
}

// repair returns the plan that merges shard 0 until a share can hold a token again:
// a limit was lowered, or another client has raised the count beyond what the
// limits can be divided by. Shards that have not merged with it are brought to its
// count, those beyond it are folded. The lock is held.
func (k *known) repair() *shard.Plan {
	zero := k.shards[0]
	if !zero.imaged() || len(zero.image.Partial) > 0 {
		return nil
	}
	fit := zero.image.State.Fitting()
	for fit > 1 && !k.granular(zero.image.State, fit) {
		fit /= 2
	}
	count := zero.image.State.Count()
	ahead := false
	for i, s := range k.shards {
		if s != zero && s.imaged() && s.at >= bucket.AddSat(table.Began(zero.image.Generation), countLag) {
			ahead = ahead || i >= count || s.image.State.Shards > count
		}
	}
	if fit >= count && !ahead {
		return nil
	}
	if fit < count {
		return shard.Shrink(zero.image, fit, k.others()...)
	}
	return shard.Propagate(zero.image, k.others()...)
}

// complete returns the plan that restores shards that are missing although their parents
// have split them off. A younger shard of a lower count says that shard 0 has merged since
// it was seen, and then nothing is known to be missing. The lock is held.
func (k *known) complete() *shard.Plan {
	zero := k.shards[0]
	if !zero.imaged() || len(zero.image.Partial) > 0 {
		return nil
	}
	for _, s := range k.shards {
		if s.imaged() && s.image.State.Count() < zero.image.State.Count() && younger(s.image, zero.image) {
			return nil
		}
	}
	for i, s := range k.shards {
		if i > 0 && s.absent && k.due(i) {
			return shard.Propagate(zero.image, k.others()...)
		}
	}
	return nil
}

// due reports whether a shard other than 0 should be there: the count of shard 0 has it,
// and its parent has split it off, as images show. The lock is held.
func (k *known) due(i int) bool {
	zero, parent := k.shards[0], k.shards[bucket.SplitParent(i)]
	return zero.imaged() && i < zero.image.State.Count() &&
		parent.imaged() && parent.image.State.Shards >= bucket.CountWith(i)
}

// younger reports whether the generation of a shard began after that of another.
func younger(a, b table.Shard) bool { return table.Began(a.Generation) > table.Began(b.Generation) }

// others returns the images of all shards but shard 0. The lock is held.
func (k *known) others() []table.Shard {
	var out []table.Shard
	for i, s := range k.shards {
		if i > 0 && s.imaged() {
			out = append(out, s.image)
		}
	}
	return out
}

// countLag is how long, in ms, after shard 0 has changed its count others may still
// show another one without anything being amiss.
const countLag = 500

// needs returns the largest costs seen, by slot.
func (k *known) needs(s bucket.State) []int64 {
	out := make([]int64, len(s.Slots))
	for i, sl := range s.Slots {
		out[i] = k.largest[sl.Name]
	}
	return out
}

// granular reports whether the whole tokens of that many full shards, as far as one
// transaction can take from them, add up to the largest costs seen.
func (k *known) granular(s bucket.State, count int) bool {
	for _, sl := range s.Slots {
		sum := int64(0)
		for i := range min(count, maxPaying) {
			sum += bucket.Share(sl.Capacity, i, count) / bucket.Milli * bucket.Milli
		}
		if k.largest[sl.Name] > sum && k.largest[sl.Name] <= sl.Capacity && sl.Name != bucket.WCU {
			return false
		}
	}
	return true
}

// restore puts back, empty, a shard that is missing although its parent has split it
// off, as an image of the parent shows: until then the parent holds its share, and
// a shard put there would hold that once more. Best effort, like grow. Whoever deletes
// one shard may have deleted others, so all that are not known are looked at then.
func (l *Limiter) restore(ctx context.Context, k *known, missing int) {
	if missing == 0 {
		return
	}
	k.mu.Lock()
	split := k.due(missing) && k.repair() == nil
	var like table.Shard
	if split {
		like = k.shards[0].image
	}
	k.mu.Unlock()
	if !split {
		return
	}
	writes := table.Restore(like, missing, like.State.Shards, l.now(), random())
	n := name{like.Entity, like.Resource}
	if _, busy := l.growing.LoadOrStore(n, true); busy {
		return
	}
	err := func() error {
		defer l.growing.Delete(n)
		return l.store.Transact(ctx, rand.Text(), writes)
	}()
	if err != nil {
		return // somebody else restored it, shard 0 has moved on, or nobody answered
	}
	b, err := table.DecodeShard(writes[0].(item.Put).Item)
	if err != nil {
		return
	}
	l.images.see(b, l.now(), unsent)
	k.mu.Lock()
	var plan *shard.Plan
	if zero := k.shards[0]; zero.imaged() { // else it was found missing meanwhile
		like, plan = zero.image, shard.Propagate(zero.image, k.others()...)
	}
	k.mu.Unlock()
	l.work(ctx, n, plan, like.State.Count())
}
