package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Level is what a bucket holds of one limit in force, as far as it is known. It speaks of
// the whole bucket: shards that were not seen are taken to be as full as those that were.
type Level struct {
	Limit       bucket.Limit
	At          int64 // when that is so, epoch ms
	Milli, Rest int64 // in millitokens, with the remainder of its refill
	Floor       int64 // the part of it that the request leaves, in millitokens
	Remaining   int64 // how many tokens one request can have: shards pay in whole ones
	After       int64 // of a denial: how long until this limit alone covers its cost, in ms
	Edge        int64 // of a quota: how long until it is whole again at once, in ms
	Estimated   bool  // some shards were not seen
	Held        int64 // what processes may hold at most, taken ahead, in millitokens
	Over        int64 // how long until no process holds any, in ms
}

// Levels returns what there is of the limits in force.
func (b *Bucket) Levels(w Want, now int64) []Level {
	k := b.lock()
	defer b.mu.Unlock()
	return k.levels(w.Costs, now, false)
}

// levels returns what there is of some limits. If only some shards were seen, the level is
// extrapolated: two shards of four that hold 12 together make 24. Less says that what this
// process has under way counts as taken.
func (k *facts) levels(costs []table.Cost, now int64, less bool) []Level {
	out := make([]Level, len(costs))
	for i, c := range costs {
		l := c.Limit
		level, rest, seen, edge := int64(0), int64(0), int64(0), int64(0)
		for n, s := range k.shards {
			if n >= k.count || !s.imaged() {
				continue
			}
			state := s.image.State
			r := state.RateOf(l)
			part := r.Capacity
			seen, edge = bucket.AddSat(seen, part), max(edge, edgeOf(r, state.RF))
			if j := state.Index(l.Name); j >= 0 {
				part, rest = state.LevelAt(j, now)
			}
			if less {
				part = bucket.SubSat(part, s.underWay.of(l.Name))
			}
			level = bucket.AddSat(level, part)
		}
		if k.count > 1 {
			rest = 0
			if seen > 0 && seen < l.Capacity {
				level = int64(float64(level) * (float64(l.Capacity) / float64(seen)))
			}
		}
		out[i] = Level{Limit: l, At: now, Milli: level, Rest: rest, Floor: c.FloorIn(bucket.State{})}
		out[i].Remaining = bucket.WholeAbove(level, out[i].Floor)
		out[i].Held, out[i].Over = k.held(l.Name, now)
		if l.Renews() {
			out[i].Edge = max(1, bucket.SubSat(edge, now))
			if edge <= now { // nothing was seen, or the period is over
				out[i].Edge = l.WholeAt(now, 0).Edge
			}
		}
		if k.count > 1 {
			d := decider{facts: k, want: Want{Costs: costs}, now: now}
			out[i].Remaining = min(out[i].Remaining, d.holds(c, now)/bucket.Milli)
			out[i].Estimated = seen < l.Capacity
		}
	}
	return out
}

// LevelsIn returns the levels of a bucket that is no other process's, at its instant.
func LevelsIn(s bucket.State, costs []table.Cost) []Level { return local(s).levels(costs, s.RF, false) }

// DenialIn is why such a bucket denies a request, by its verdict.
func DenialIn(s bucket.State, w Want, v bucket.Verdict, now int64) Denial {
	k := local(s)
	d := decider{facts: k, want: w, now: now}
	return d.deny(Choice{Do: Deny, at: v.At, Limit: s.Slots[v.Slot].Name}).explained(k, now)
}

// local are the facts about a bucket of this process alone.
func local(s bucket.State) *facts {
	image := table.Shard{Entity: "local", State: s}
	return &facts{Settings: &Settings{}, count: 1, shards: map[int]*seen{0: {image: image, at: s.RF}}}
}
