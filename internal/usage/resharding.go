package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Resharding changes the count of a bucket's shards: shard 0 splits or merges, or other shards
// follow it.
type Resharding struct {
	Zero  table.Shard // image of shard 0, or of the single shard to change
	Count int         // the count to reach
	Steps *shard.Plan

	others []table.Shard // images of other shards, if available
	double bool          // shard 0 splits
	merge  bool          // shard 0 merges; if it neither splits nor merges, the others follow
	asks   bool          // the count must be read from shard 0
}

// Bucket returns the bucket whose shards change.
func (r Resharding) Bucket() Bucket { return bucketOf(r.Zero) }

// doubling returns the split of shard 0.
func doubling(zero table.Shard) Resharding {
	return Resharding{Zero: zero, Count: 2 * zero.State.Count(), Steps: shard.Double(zero), double: true}
}

// merging returns the merge of shard 0 down to count shards.
func merging(zero table.Shard, others []table.Shard, count int) Resharding {
	return Resharding{
		Zero: zero, Count: count, Steps: shard.Shrink(zero, count, others...), others: others, merge: true,
	}
}

// following returns the resharding of all shards to the count of shard 0; shards below swept may
// have been left behind.
func following(zero table.Shard, others []table.Shard, swept int) Resharding {
	return Resharding{
		Zero: zero, Count: zero.State.Count(), Steps: shard.Propagate(zero, others...).Sweep(swept),
		others: others,
	}
}

// straggling returns the resharding of one shard to the count of shard 0.
func straggling(b table.Shard, count int) Resharding {
	return Resharding{Zero: b, Count: count, Steps: shard.Follow(b, count)}
}

// asking returns the resharding of one shard to the count of shard 0, which must be read first.
func asking(b table.Shard) Resharding {
	return Resharding{Zero: b, Steps: shard.FollowAsking(b), asks: true}
}

// cooling is asking, except that shard 0 merges if it turns out to have been cool for after
// milliseconds.
func cooling(b table.Shard, after int64) Resharding {
	r := asking(b)
	r.Steps.Shrinking(func(zero table.Shard, now int64) int {
		if rested(zero, now, after) {
			return max(1, zero.State.Count()/2)
		}
		return zero.State.Count()
	})
	return r
}

// changes reports whether the resharding probably writes shard k.
func (r Resharding) changes(k int) bool {
	switch {
	case r.asks: // it is rarely behind
		return false
	case r.merge:
		return k == 0 || k >= r.Count
	case r.double || r.Zero.State.Shard != 0:
		return k == r.Zero.State.Shard
	}
	for _, o := range r.others {
		if o.State.Shard == k {
			return o.State.Shards != r.Count || k >= r.Count
		}
	}
	return false
}

// reshardings returns the reshardings that the sorted shards of one bucket need.
//
//   - Shard 0 has a count at which a share holds no token, or that no configuration
//     allows: it merges. Other shards never follow such a count.
//   - The count of shard 0 has changed: the others follow. The change is in the
//     stream only once, so it counts whether or not anything was consumed. The same
//     applies if a shard is seen that should not exist.
//   - A shard has another count than shard 0: it follows. That finishes the work of
//     an earlier invocation.
//   - Shards are seen without shard 0, because nothing was written to it, or its
//     records are in another shard of the stream: shard 0 is read once a minute.
//   - Shard 0 is hot or at its limit: it doubles, unless a share could then no longer
//     hold the largest cost of the batch.
//   - The bucket has been cool for a while: shard 0 merges, to half its count.
func reshardings(shards []History, conf Config) []Resharding {
	zero := shards[0]
	switch {
	case zero.Shard != 0:
		return unaccompanied(shards, conf.MergeAfter)
	case len(zero.last().New.Partial) > 0:
		return nil
	}
	var others []table.Shard
	for _, b := range shards[1:] {
		others = append(others, b.last().New)
	}
	image := zero.last().New
	count := image.State.Count()
	if fit := min(image.State.Fitting(), bucket.MaxShards); fit < count {
		return []Resharding{merging(image, others, fit)}
	}
	var out []Resharding
	if recounted(zero) {
		out = append(out, following(image, others, leftBehind(zero)))
	} else {
		out = stragglers(image, others)
	}
	switch half := count / 2; {
	case hot(zero):
		if image.State.CanSplit(conf.MaxShards) && image.State.Holds(2*count, largest(shards, image.State)) {
			out = append(out, doubling(image))
		}
	case len(out) == 0 && half > 0 && cool(shards, conf.MergeAfter):
		out = append(out, merging(image, others, half))
	}
	return out
}

// stragglers returns the reshardings that bring the batch's shards to the count of shard 0, which
// did not change in this batch.
func stragglers(zero table.Shard, others []table.Shard) []Resharding {
	var out []Resharding
	count := zero.State.Count()
	for _, o := range others {
		switch {
		case len(o.Partial) > 0 || o.State.Count() == count && o.State.Shard < count:
		case o.State.Shard >= count:
			return []Resharding{following(zero, others, 0)}
		default:
			out = append(out, straggling(o, count))
		}
	}
	return out
}

// askEvery is the time, in ms, between two reads of shard 0 by a shard that is seen without it. If
// buckets merge sooner than that, the time is theirs. It depends only on refill instants, so a
// batch that is delivered again gives the same result. The time starts with the shard's generation:
// after a merge, the next read comes when the shards may merge again.
const askEvery = 60_000

// unaccompanied returns the reshardings that bring shards seen without shard 0 to its count, or
// merge shard 0. Each begins by reading shard 0, for one write unit, and usually ends with that.
// Without such a merge, a bucket would stay divided until shard 0 is written. That can take long,
// because the few processes that use a cool bucket each stay with one shard for a while.
func unaccompanied(shards []History, mergeAfter int64) []Resharding {
	var out []Resharding
	rushed := slices.ContainsFunc(shards, func(b History) bool { return lively(b.Changes) })
	for _, b := range shards {
		image := b.last().New
		switch due, late := asksAgain(b.Changes, mergeAfter); {
		case len(image.Partial) > 0 || !due:
		case rushed || !late || len(out) > 0:
			out = append(out, asking(image))
		default:
			out = append(out, cooling(image, mergeAfter))
		}
	}
	return out
}

// asksAgain reports whether a shard is due to read shard 0 again: some change is the first after
// askEvery. late reports that before this change, the shard was not written for a second.
func asksAgain(changes []*stream.Change, mergeAfter int64) (due, late bool) {
	every := min(askEvery, max(mergeAfter, 1000))
	for _, c := range changes {
		began := table.Began(c.New.Generation)
		if c.OldRF > 0 && (c.OldRF-began)/every < (c.New.State.RF-began)/every {
			due, late = true, late || bucket.SubSat(c.New.State.RF, c.OldRF) >= 1000
		}
	}
	return due, late
}

// leftBehind returns the count below which shards may have been left behind, or 0 if none can be.
// There are two causes: shard 0 is removed and created again, or another client lowers its count
// without a merge.
func leftBehind(zero History) int {
	most := 0
	for _, c := range zero.Changes {
		byOthers := c.OldGeneration == c.New.Generation && c.New.State.Shards < c.OldShards
		if c.Operation == stream.Remove || byOthers {
			most = max(most, min(c.OldShards, bucket.MaxShards))
		}
	}
	return most
}

// recounted reports whether the count of shard 0 has changed. A shard 0 that appears with more than
// one shard has siblings somewhere, and so has one that had more when it was removed.
func recounted(zero History) bool {
	return slices.ContainsFunc(zero.Changes, func(c *stream.Change) bool {
		if c.Operation == stream.Remove {
			return c.OldShards > 1
		}
		return c.New.State.Count() != max(1, c.OldShards)
	})
}

// largest returns the largest cost of the batch by slot of the state. The costs of one write are
// added up.
func largest(shards []History, s bucket.State) []int64 {
	out := make([]int64, len(s.Slots))
	for _, b := range shards {
		for _, c := range b.Changes {
			for _, u := range c.Used {
				if i := s.Index(u.Limit); i >= 0 {
					out[i] = max(out[i], u.Milli)
				}
			}
		}
	}
	return out
}
