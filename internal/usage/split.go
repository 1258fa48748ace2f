package usage

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// maxCount is the highest count of shards that is believed: the most that any
// configuration allows. Catching up with a count costs writes for every shard
// below it, so one wrong attribute could ask for a million of them.
const maxCount = 1024

// Split is a step in the life of a bucket's shards: shard 0 doubles or merges, or
// others catch up with it.
type Split struct {
	Zero   table.Shard   // image of shard 0; for a single shard, its own
	Others []table.Shard // images of other shards, if known
	Double bool          // shard 0 is to be doubled
	Merge  bool          // shard 0 is to be merged; if it is neither, the others catch up
	Count  int           // the count to reach
	Swept  int           // the count up to which shards may have been left behind
	First  string        // sequence number to resume from if it is not written
}

// Resume is the sequence number to resume from if the split is not finished.
func (s Split) Resume() string { return s.First }

// Steps returns the plan of the steps.
func (s Split) Steps() *shard.Plan {
	switch {
	case s.Double:
		return shard.Double(s.Zero)
	case s.Merge:
		return shard.Shrink(s.Zero, s.Count, s.Others...)
	case s.Zero.State.Shard != 0:
		return shard.Follow(s.Zero, s.Count)
	}
	return shard.Propagate(s.Zero, s.Others...).Sweep(s.Swept)
}

// changes reports whether the split is likely to write the shard.
func (s Split) changes(k int) bool {
	switch {
	case s.Merge:
		return k == 0 || k >= s.Count
	case s.Double || s.Zero.State.Shard != 0:
		return k == s.Zero.State.Shard
	}
	for _, o := range s.Others {
		if o.State.Shard == k {
			return o.State.Shards != s.Count || k >= s.Count
		}
	}
	return false
}

// splits returns what the shards of one bucket, sorted, ask for.
//
//   - Shard 0 has a count at which a share holds no token, or that no configuration
//     allows: it merges. Such a count is never followed.
//   - The count of shard 0 has changed: the others catch up. The change is in the
//     stream once, so it counts whether or not anything was consumed. The same when
//     a shard is seen that should not be there at all.
//   - A shard is seen behind or ahead of the count of shard 0: it catches up. That
//     mends what an earlier invocation left unfinished.
//   - Shard 0 is hot or at its limit: it doubles, unless a share could not hold the
//     largest cost of the batch any more.
//   - The bucket has been cool for a while: shard 0 merges, to half its count.
func splits(shards []Shard, conf Config) []Split {
	zero := shards[0]
	if zero.Shard != 0 || len(zero.last().New.Partial) > 0 {
		return nil
	}
	var others []table.Shard
	for _, b := range shards[1:] {
		others = append(others, b.last().New)
	}
	image, last := zero.last().New, zero.last().Sequence
	count := max(image.State.Shards, 1)
	if fit := min(image.State.Fitting(), maxCount); fit < count {
		return []Split{{Zero: image, Others: others, Merge: true, Count: fit, First: last}}
	}
	var out []Split
	if at := recounted(zero); at != "" {
		out = append(out, Split{Zero: image, Others: others, Count: count, Swept: leftBehind(zero), First: at})
	} else {
		out = stragglers(shards, others, count)
	}
	switch half := count / 2; {
	case hot(zero):
		if image.State.CanSplit(conf.MaxShards) && image.State.Holds(2*count, largest(shards, image.State)) {
			out = append(out, Split{Zero: image, Double: true, Count: 2 * count, First: last})
		}
	case len(out) == 0 && half > 0 && cool(shards, conf.MergeAfter):
		out = append(out, Split{Zero: image, Others: others, Merge: true, Count: half, First: last})
	}
	return out
}

// stragglers returns what brings the shards that the batch shows to the count of
// shard 0, which has not changed in this batch.
func stragglers(shards []Shard, others []table.Shard, count int) []Split {
	var out []Split
	for i, o := range others {
		at := shards[i+1].last().Sequence
		switch {
		case len(o.Partial) > 0 || max(o.State.Shards, 1) == count && o.State.Shard < count:
		case o.State.Shard >= count:
			return []Split{{Zero: shards[0].last().New, Others: others, Count: count, First: at}}
		default:
			out = append(out, Split{Zero: o, Count: count, First: at})
		}
	}
	return out
}

// leftBehind returns the count up to which shards may have been left behind: by the
// removal of shard 0, which then was created anew, or by other clients that have
// lowered its count without a merge, 0 if there was none of it.
func leftBehind(zero Shard) int {
	most := 0
	for _, c := range zero.Changes {
		byOthers := c.OldGeneration == c.NewGeneration && c.New.State.Shards < c.OldShards
		if c.Operation == stream.Remove || byOthers {
			most = max(most, min(c.OldShards, maxCount))
		}
	}
	return most
}

// recounted returns the sequence number of the first change of the count, empty if
// there was none. A shard 0 that appears with more than one shard has siblings
// somewhere, and so has one that had more when it was removed.
func recounted(zero Shard) string {
	for _, c := range zero.Changes {
		if c.Operation == stream.Remove && c.OldShards > 1 {
			return c.Sequence
		}
		if c.Operation != stream.Remove && max(1, c.New.State.Shards) != max(1, c.OldShards) {
			return c.Sequence
		}
	}
	return ""
}

// largest returns the largest cost of the batch by slot of the state. Costs that
// one write has taken together are not told apart.
func largest(shards []Shard, s bucket.State) []int64 {
	out := make([]int64, len(s.Slots))
	for _, b := range shards {
		for _, c := range b.Changes {
			for _, d := range c.Deltas {
				if i := s.Index(d.Limit); i >= 0 {
					out[i] = max(out[i], d.Milli)
				}
			}
		}
	}
	return out
}
