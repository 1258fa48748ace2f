package decide

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// growth returns the plan that the image of the shard just written requires, nil for none. It
// splits shard 0 if the write meter of the shard just written is exhausted. It splits the shard
// just written if that is behind the count of shard 0. A limit that is stored in part cannot be
// divided.
func (k *facts) growth(image table.Shard, now int64) *shard.Plan {
	if len(image.Partial) > 0 {
		return nil
	}
	if plan := k.repair(); plan != nil {
		return plan
	}
	return k.grown(image, now)
}

// Mend returns the plan after which more can be granted: it merges shards, or restores some that
// are missing. It is nil if no plan helps. count is the known count of shards.
func (b *Bucket) Mend() (plan *shard.Plan, count int) {
	k := b.lock()
	defer b.mu.Unlock()
	return k.mend(), k.count
}

func (k *facts) mend() *shard.Plan {
	if plan := k.repair(); plan != nil {
		return plan
	}
	return k.complete()
}

// grown is growth if nothing has to be repaired.
func (k *facts) grown(b table.Shard, now int64) *shard.Plan {
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
	if level, _ := b.State.LevelAt(i, now); level >= bucket.WCUPerWrite {
		return nil
	}
	zero := k.shards[0]
	if !zero.imaged() || len(zero.image.Partial) > 0 || zero.image.State.Shards != k.count ||
		!zero.image.State.CanSplit(k.MaxShards) || !zero.image.State.Holds(2*k.count, k.needs(zero.image.State)) {
		return nil
	}
	return shard.Double(zero.image)
}

// repair returns the plan that merges shard 0 until a share can hold a token again. That is needed
// if a limit was lowered, or if another client has raised the count too far for the limits. Shards
// that have not merged with it are brought to its count, and shards beyond the count are folded.
func (k *facts) repair() *shard.Plan {
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
		if s != zero && s.imaged() && s.at >= bucket.AddSat(table.Began(zero.image.Generation), k.lag()) {
			ahead = ahead || i >= count || s.image.State.Shards > count
		}
	}
	if fit >= count && !ahead {
		return nil
	}
	if fit < count {
		return shard.Shrink(zero.image, fit, k.siblings()...)
	}
	return shard.Propagate(zero.image, k.siblings()...)
}

// complete returns the plan that restores shards that are missing although their parents have split
// them off. Until then the parent holds its share, and a shard created there would hold that a
// second time. If one was deleted, others may have been too: the plan looks at all unknown shards.
// A younger shard with a lower count shows that shard 0 has merged since it was seen, and then no
// shard is known to be missing.
func (k *facts) complete() *shard.Plan {
	zero := k.shards[0]
	if !zero.imaged() || len(zero.image.Partial) > 0 {
		return nil
	}
	for _, s := range k.shards {
		if s.imaged() && s.image.State.Count() < zero.image.State.Count() && younger(s.image, zero.image) {
			return nil
		}
	}
	var missing []int
	for i, s := range k.shards {
		if s.absent && k.due(i) { // never shard 0, which is imaged
			missing = append(missing, i)
		}
	}
	if missing == nil {
		return nil
	}
	return shard.Propagate(zero.image, k.siblings()...).Without(missing...)
}

// due reports whether a shard other than 0 should be there: the count of shard 0 has it,
// and its parent has split it off, as images show.
func (k *facts) due(i int) bool {
	zero, parent := k.shards[0], k.shards[bucket.SplitParent(i)]
	return i < zero.image.State.Count() && parent.imaged() && parent.image.State.Shards >= bucket.CountWith(i)
}

// siblings returns the images of all shards other than shard 0.
func (k *facts) siblings() []table.Shard {
	var out []table.Shard
	for i, s := range k.shards {
		if i > 0 && s.imaged() {
			out = append(out, s.image)
		}
	}
	return out
}

// lag is how long, in ms, after a change of shard 0's count the other shards may still show another
// one without anything being wrong: as long as it takes to bring them all along.
func (k *facts) lag() int64 {
	return max(countLag, int64(math.Ceil(2*k.trip*float64(k.count)))) // a look and a transaction for each
}

// countLag is the lag, in ms, behind a table that answers at once.
const countLag = 500

// needs returns the largest costs seen, by slot.
func (k *facts) needs(s bucket.State) []int64 {
	out := make([]int64, len(s.Slots))
	for i, sl := range s.Slots {
		out[i] = k.largest[sl.Name]
	}
	return out
}

// granular reports whether one transaction could take the largest costs seen from that many full
// shards, in whole tokens of each.
func (k *facts) granular(s bucket.State, count int) bool {
	for _, sl := range s.Slots {
		sum := int64(0)
		for i := range min(count, MaxPaying) {
			sum += bucket.Share(sl.Capacity, i, count) / bucket.Milli * bucket.Milli
		}
		if k.largest[sl.Name] > sum && k.largest[sl.Name] <= sl.Slowest().Capacity && sl.Name != bucket.WCU {
			return false
		}
	}
	return true
}

// mergeTime is about how long, in ms, it takes until shards have merged, at least.
const mergeTime = 1000
