package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Levels returns the levels of the limits in force.
func (b *Bucket) Levels(w Want, now int64) []Level {
	k := b.lock()
	defer b.mu.Unlock()
	return k.levels(w.Costs, now, false)
}

// levels returns the levels of some limits. If only some shards were seen, the level is
// extrapolated: two shards of four that hold 12 together make 24. With less, costs under way count
// as taken.
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
			if seen = bucket.AddSat(seen, part); r.Edge != 0 { // it is full again then
				edge = max(edge, bucket.AddSat(state.RF, r.Edge))
			}
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
