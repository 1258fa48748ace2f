package limiter

import (
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
