package limiter

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// others is how fast other processes take from the limits of a shard, as
// successive images tell. It is an estimate: it never grants anything.
type others struct {
	taken   map[string]float64 // millitokens by limit, fading
	elapsed float64            // ms, fading
	refused int64              // when a write that the image covered was refused, epoch ms
}

// fade is what an observation weighs when the next one comes.
const fade = 0.875

// learn takes in what the counters have grown by between two images of one
// generation, less what this process took itself.
func (o *others) learn(before, after bucket.State, own []table.Cost, elapsed int64) {
	if o.taken == nil {
		o.taken = make(map[string]float64, len(after.Slots))
	}
	o.elapsed = o.elapsed*fade + float64(max(elapsed, 1))
	for i, sl := range after.Slots {
		if i >= len(before.Slots) || before.Slots[i].Name != sl.Name {
			continue
		}
		grown := sl.Used - before.Slots[i].Used
		for _, c := range own {
			if c.Limit == sl.Name {
				grown -= c.Milli
			}
		}
		o.taken[sl.Name] = o.taken[sl.Name]*fade + float64(grown)
	}
}

// rate returns what others take from a limit, in millitokens per millisecond.
func (o *others) rate(limit string) float64 {
	if o.elapsed == 0 {
		return 0
	}
	return max(o.taken[limit], 0) / o.elapsed
}

// contendedFor is how long, in ms, after a refusal this process reckons with what
// others take.
const contendedFor = 10_000

// expected estimates from when the costs are covered if others go on taking what
// they have been seen to take. It speaks only for a shard where that has made a
// write fail, and not beyond the image's time.
func (d decider) expected(s *seen) (at int64, limit string) {
	if s.others.refused == 0 || d.now-s.others.refused > contendedFor || d.outlived(s, d.denyFor) {
		return 0, ""
	}
	state, until := s.bucket.State, s.at+d.denyFor
	for _, c := range d.want.costs {
		i := state.Index(c.Limit)
		if i < 0 || c.Milli == 0 {
			continue
		}
		r := state.Rate(i)
		refill, taken := float64(r.Amount)/float64(r.Period), s.others.rate(c.Limit)
		gone := taken * float64(d.now-s.at)
		level := min(float64(state.Slots[i].Tokens)+refill*float64(d.now-state.RF)-gone, float64(r.Capacity))
		level -= float64(s.under[c.Limit])
		spread := math.Sqrt(gone * float64(c.Milli))
		if spread > float64(r.Capacity-c.Milli)/4 {
			continue
		}
		short, then := float64(c.Milli)+spread-level, until
		if short <= 0 {
			continue
		}
		if gain := refill - taken; gain > 0 {
			then = min(until, d.now+int64(short/gain)+1)
		}
		if then > at {
			at, limit = then, c.Limit
		}
	}
	return at, limit
}
