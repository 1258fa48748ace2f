package decide

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// others is how fast other processes take from the limits of a shard, by successive images. It is
// an estimate: it never grants anything.
type others struct {
	taken   map[string]float64 // millitokens by limit, fading
	all     map[string]float64 // the same, with what this process takes
	elapsed float64            // ms, fading
	images  float64            // observations, fading
}

// fade is the weight of an observation when the next one comes, or fadeSpan ms later if that is
// later. With a slow table, processes take turns: for a while one takes much, then others do. Eight
// images of one such moment do not show their average; eight seconds do.
const (
	fade     = 0.875
	fadeSpan = 1000
)

// lately is the greatest age, in ms, of an image that shows others still taking.
const lately = 10_000

// learn observes how much the counters have grown between two images of one generation, less this
// process's own part. It reports whether others have taken lately.
func (o *others) learn(before, after bucket.State, own []table.Cost, elapsed int64) (took bool) {
	if o.all == nil {
		o.taken, o.all = make(map[string]float64, len(after.Slots)), make(map[string]float64, len(after.Slots))
	}
	elapsed = max(elapsed, 1)
	left := math.Pow(fade, min(1, float64(elapsed)/fadeSpan))
	o.elapsed = o.elapsed*left + float64(elapsed)
	o.images = o.images*left + 1
	for i, sl := range after.Slots {
		if i >= len(before.Slots) || before.Slots[i].Name != sl.Name {
			continue
		}
		grown := sl.Used - before.Slots[i].Used
		o.all[sl.Name] = o.all[sl.Name]*left + float64(grown)
		for _, c := range own {
			if c.Limit.Name == sl.Name {
				grown -= c.Milli
			}
		}
		o.taken[sl.Name] = o.taken[sl.Name]*left + float64(grown)
		took = took || grown > 0 && sl.Name != bucket.WCU && elapsed < lately
	}
	return took
}

// rate returns what others take from a limit, in millitokens per millisecond.
func (o *others) rate(limit string) float64 {
	if o.elapsed == 0 {
		return 0
	}
	return max(o.taken[limit], 0) / o.elapsed
}

// unused is the part of a refill, in millitokens per millisecond, that nobody takes. Images of less
// than a second say little.
func (o *others) unused(limit string, refill float64) float64 {
	return max(0, 1-o.all[limit]/max(o.elapsed, fadeSpan)/refill)
}

// What a charge on a full limit may let pass, see slack.
const (
	slackBase  = 3.5 // percent of the capacity
	slackMeans = 1.9 // times what others take between two images
)

// slack returns how far below its level a charge may leave a full limit, to make room for what
// others may have taken since the image. It is in percent of the capacity, and at most the given
// one. A process asks at random times, so the amount that others take between two of its images is
// exponential with a mean m. A fixed slack S refuses exp(-S/m) of such charges. In a small fleet
// that is hardly any, and levels are too low for nothing; in a large one it is many. So the slack
// follows m:
//
//	S = 3.5 % + (1.9 + spare) m
//
// Here spare is the part of the refill that others leave, 0 to 1. A level that is too low fills up
// again at that rate, so it may be lower if much is left: at a tenth of the rate that saves 2 % of
// the writes. Example: 16 processes take nine tenths of 600 per minute. Between two images of each
// that is 15 tokens, 2.5 %. So S = 3.5 + 2*2.5 = 8.5 %, and 3 % of the charges are refused. A
// bucket that was seen once shows nothing about others, so there is little slack: after an idle
// time it grants exactly its capacity. The constants were found by simulating fleets
// (test/bench/fleet); docs/measured.md has the results.
func (o *others) slack(s bucket.State, w Want, most int64) int64 {
	passing := 0.0
	for _, c := range w.Costs {
		if i := s.Index(c.Limit.Name); i >= 0 && c.Milli > 0 && c.Limit.Refills() {
			r := s.Rate(i)
			mean := o.taken[c.Limit.Name] / max(o.images, 1) / float64(r.Capacity)
			spare := max(0, 1-o.rate(c.Limit.Name)*float64(r.Period)/float64(r.Amount))
			passing = max(passing, (slackMeans+spare)*100*mean)
		}
	}
	return min(most, int64(slackBase+passing))
}
