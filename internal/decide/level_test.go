package decide

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// anyLimits returns a rate, a soft one, a quota whose period ends at every full hour, and a rate
// that some shards do not store yet.
func anyLimits(r *rand.Rand) []bucket.Limit {
	rate := func(name string) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: 8000 + r.Int64N(50_000), Amount: 1000 + r.Int64N(9000), Period: 1000}
	}
	a, b, q, z := rate("aaa"), rate("bbb"), rate("mmm"), rate("zzz")
	b.Soft = r.IntN(2) == 0
	q.Amount, q.Period, q.Reset = 0, bucket.QuotaPeriod, "m0@UTC"
	return []bucket.Limit{a, b, q, z}
}

// anyBucket returns a partly known bucket at an instant shortly before or after a full hour, and a
// request for it. Some shards are unknown, some are missing, one is beyond the count, and others
// have costs under way.
func anyBucket(r *rand.Rand) decider {
	const hour = 3_600_000
	limits, now := anyLimits(r), (noon/hour+1)*hour+r.Int64N(4000)-1500
	k := factsOf(1)
	count := 1 << r.IntN(4)
	for shard := range count + 1 {
		if r.IntN(4) == 0 || shard == count && count == 1 {
			if shard > 0 && r.IntN(2) == 0 {
				k.missing(shard, now-r.Int64N(2*absentFor))
			}
			continue
		}
		stored := limits[:3+r.IntN(2)]
		image := shardOf(bucket.New(stored, shard, count, now-r.Int64N(3000)))
		if shard == count {
			image.State.Shards = 2 * count
		}
		for i, sl := range image.State.Slots {
			image.State.Slots[i].Tokens = r.Int64N(image.State.Rate(i).Capacity+3000) - 1500
			if sl.Renews() {
				image.State.Slots[i].Tokens = min(image.State.Slots[i].Tokens, image.State.Rate(i).Capacity)
			}
			if sl.Name != bucket.WCU && r.IntN(3) == 0 {
				image.State.Slots[i].Held, image.State.HeldUntil = r.Int64N(2000), now+r.Int64N(4000)-2000
			}
		}
		k.see(image, now-r.Int64N(2000), Unsent, nil)
		for _, l := range limits {
			if r.IntN(2) == 0 {
				k.shards[shard].underWay.add(table.Costs([]bucket.Limit{l}, r.Int64N(3000)))
			}
		}
	}
	k.count, k.lookedAt = count, now-r.Int64N(3000)
	w := asks(0)
	w.Costs = table.Costs(limits, r.Int64N(9000), r.Int64N(9000), r.Int64N(9000), r.Int64N(9000))
	w.Costs[r.IntN(4)].Milli = 0
	w.Costs[0].Floor = []int64{0, 20}[r.IntN(2)]
	return decider{facts: k, want: w, now: now, attempt: &Attempt{}}
}

// seenOf returns the images of the bucket's shards, in order.
func (d decider) seenOf() (all []*seen) {
	for n := range d.count {
		if s := d.shards[n]; s.imaged() {
			all = append(all, s)
		}
	}
	return all
}

// naive is a limit by shards: their levels, their capacities, the held tokens of their processes
// and for how long, and when their period ends.
type naive struct{ levels, parts, underWay, held, over, edges []int64 }

func (d decider) naively(l bucket.Limit) (n naive) {
	for _, s := range d.seenOf() {
		st := s.image.State
		r := st.RateOf(l)
		level := r.Capacity
		if i := st.Index(l.Name); i >= 0 {
			level = st.At(max(d.now, st.RF)).Slots[i].Tokens
			if h := st.Slots[i].Held; h > 0 && st.HeldUntil > d.now && st.HeldUntil > st.RF {
				n.held, n.over = append(n.held, h), append(n.over, st.HeldUntil-d.now)
			}
		}
		n.levels, n.parts = append(n.levels, level), append(n.parts, r.Capacity)
		n.underWay = append(n.underWay, s.underWay.of(l.Name))
		if l.Reset != "" {
			n.edges = append(n.edges, st.RF+r.Edge)
		}
	}
	return n
}

func sum(all []int64) (total int64) {
	for _, one := range all {
		total += one
	}
	return total
}

// most returns the largest number, 0 for none.
func most(all []int64) int64 { return slices.Max(append(all, 0)) }

// payable returns how many tokens one request can have from all shards: whole tokens of each, above
// its floor, and none from a shard in debt. An unknown shard counts as full, unless it is part of
// another.
func (d decider) payable(c table.Cost, at int64) (tokens int64) {
	for n := range d.count {
		s, share := d.shards[n], bucket.State{Shard: n, Shards: d.count}
		level := share.CapacityOf(c.Limit)
		switch {
		case s.imaged():
			share = s.image.State
			later := share.At(max(at, share.RF))
			if i := later.Index(c.Limit.Name); i >= 0 {
				level, _ = share.LevelAt(i, at)
				level = min(level, share.RateOf(c.Limit).Capacity)
			} else {
				level = share.RateOf(c.Limit).Capacity
			}
			for _, other := range d.want.Costs {
				if i := share.Index(other.Limit.Name); i >= 0 && !other.Limit.Soft {
					if l, _ := share.LevelAt(i, at); l < 0 {
						level = math.MinInt64 / 2
					}
				}
			}
			level -= s.underWay.of(c.Limit.Name)
		case d.nearest(n) != n:
			level = 0
		}
		tokens += max(level-c.FloorIn(share), 0) / bucket.Milli
	}
	return tokens
}

// The levels of a bucket are the sums over all its shards, and a second way to add them up agrees.
func TestLevelsSumAllShards(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for n := range 3000 {
		d := anyBucket(r)
		for i, l := range d.levels(d.want.Costs, d.now, false) {
			c := d.want.Costs[i]
			all := d.naively(c.Limit)
			level, seen := sum(all.levels), sum(all.parts)
			if seen > 0 && seen < c.Limit.Capacity {
				level = int64(float64(level) * (float64(c.Limit.Capacity) / float64(seen)))
			}
			want := Level{Limit: c.Limit, At: d.now, Milli: level, Rest: l.Rest, Held: sum(all.held), Over: most(all.over),
				Floor: (c.Limit.Capacity*c.Floor + 99) / 100, Estimated: seen < c.Limit.Capacity && d.count > 1}
			want.Remaining = bucket.WholeAbove(level, want.Floor)
			if d.count > 1 {
				want.Remaining = min(want.Remaining, d.payable(c, d.now))
			}
			if c.Limit.Reset != "" {
				if want.Edge = most(all.edges) - d.now; want.Edge <= 0 {
					want.Edge = c.Limit.WholeAt(d.now, 0).Edge
				}
			}
			if l != want {
				t.Fatalf("bucket %d of %d shards: %+v, want %+v", n, d.count, l, want)
			}
		}
	}
}
