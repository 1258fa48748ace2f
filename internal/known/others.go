package known

import (
	"maps"
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// others is how fast other processes take from the limits of a shard, as
// successive images tell. It is an estimate: it never grants anything.
type others struct {
	taken   map[string]float64 // millitokens by limit, fading
	elapsed float64            // ms, fading
	images  float64            // observations, fading
	refused map[int64]int64    // when writes that the image covered were refused, epoch ms, by their Want.floor
}

// fade is what an observation weighs when the next one comes, or fadeSpan ms later if
// that is later. Where a table is slow, processes take by turns: for a while one takes
// much, then others do. Eight images of one such moment say nothing of what they take
// in the mean; eight seconds do.
const (
	fade     = 0.875
	fadeSpan = 1000
)

// learn takes in what the counters have grown by between two images of one
// generation, less what this process took itself.
func (o *others) learn(before, after bucket.State, own []table.Cost, elapsed int64) {
	if o.taken == nil {
		o.taken = make(map[string]float64, len(after.Slots))
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
		for _, c := range own {
			if c.Limit.Name == sl.Name {
				grown -= c.Milli
			}
		}
		o.taken[sl.Name] = o.taken[sl.Name]*left + float64(grown)
	}
}

// rate returns what others take from a limit, in millitokens per millisecond.
func (o *others) rate(limit string) float64 {
	if o.elapsed == 0 {
		return 0
	}
	return max(o.taken[limit], 0) / o.elapsed
}

// What a charge on a full limit may let pass, see slack.
const (
	slackBase  = 3.5 // percent of the capacity
	slackMeans = 1.9 // times what others take between two images
)

// slack returns how much lower than it is a charge may show a full limit, to let pass what others
// may have taken since the image. It is in percent of the capacity, and at most the given one. A
// process asks at random times, so the amount that others take between two of its images is
// exponential with a mean m. A fixed slack S refuses exp(-S/m) of such charges. In a small fleet
// that is hardly any, and levels are shown low for nothing; in a large one it is many. So the slack
// follows m:
//
//	S = 3.5 % + (1.9 + spare) m
//
// Here spare is the part of the refill that others leave, 0 to 1. A level that is shown low fills
// up again at that rate, so it may be lower where much is left. Example: 16 processes take nine
// tenths of 600 per minute. Between two images of each that is 15 tokens, 2.5 %. So S = 3.5 + 2*2.5
// = 8.5 %, and 3 % of the charges are refused. Of a bucket seen once nothing is known, and little
// is let pass: after an idle time it grants exactly its capacity. The constants were found by
// simulating fleets (test/bench/fleet); docs/measured.md has what they reach.
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

// contendedFor is how long, in ms, after a refusal this process reckons with what
// others take.
const contendedFor = 10_000

// refuse notes that a write was refused whose image covered it, and forgets those of long ago.
func (o *others) refuse(floor, now int64) {
	if o.refused == nil {
		o.refused = make(map[int64]int64, 1)
	}
	maps.DeleteFunc(o.refused, func(_, at int64) bool { return now-at > contendedFor })
	o.refused[floor] = now
}

// contended reports whether others have lately made a write fail. It counts only writes that leave
// no more than this request does. A request that leaves more may have been refused for its floor
// alone. Example: 410 of 1000 are left. A class that leaves 400 finds too little, a request that
// leaves nothing finds hundreds.
func (s *seen) contended(w Want, now int64) bool {
	floor := w.floor()
	for left, at := range s.others.refused {
		if left <= floor && now-at <= contendedFor {
			return true
		}
	}
	return false
}

// expected estimates from when the costs are covered if others go on taking what they have been
// seen to take. It speaks only for a shard where that has made a write fail, and not beyond the
// time for which its image may deny. Of several shards, one is looked at for all. Otherwise each
// process would ask each shard once in that time: 8 processes on 8 shards would send 64 writes a
// second even if nothing is left.
//
// An image is half a round trip old when it arrives. The next write takes another half to arrive.
// So the image also lacks what others take in one round trip.
//
// Example: the image that came 0.4 s ago showed 5 tokens of half a second ago, and a write
// takes 0.1 s. 10 are refilled per second, and others take 16. By now there are
// 5 + 5 - 8 = 2 on average, which covers a cost of 1.
// But they take a token now and then, not evenly: the 8 may as well be 8 + 2.8 (the
// square root), and then the write is refused. So it is not sent before the level less
// that spread covers the cost; here that never happens, so not before the next look.
func (d decider) expected(s *seen) (at int64, limit string) {
	state, until := s.image.State, s.at+d.DenyFor
	if d.count > 1 {
		until = min(max(s.at, d.lookedAt), d.now) + d.DenyFor
	}
	if !s.contended(d.want, d.now) || d.count == 1 && d.outlived(s, d.DenyFor) || s.clockless(d.now) {
		return 0, ""
	}
	for _, c := range d.want.Costs {
		i := state.Index(c.Limit.Name)
		if i < 0 || c.Milli == 0 || !c.Limit.Refills() || c.Limit.Soft {
			continue
		}
		r := state.Rate(i)
		refill, taken := float64(r.Amount)/float64(r.Period), s.others.rate(c.Limit.Name)
		gone := taken * (float64(max(d.now-s.at, 0)) + d.trip)
		if gone < float64(c.Milli)/4 { // most likely nobody takes anything
			gone = 0
		}
		top := float64(r.Capacity)
		if state.HeldAfter(d.now) > d.now {
			top -= float64(state.Slots[i].Held)
		}
		level := min(float64(state.Slots[i].Tokens)+refill*float64(d.now-state.RF)-gone, top)
		level -= float64(s.underWay.of(c.Limit.Name))
		deviation := math.Sqrt(gone * float64(c.Milli))
		if deviation > float64(r.Capacity-c.Milli)/4 { // too uncertain to deny by
			continue
		}
		short, then := float64(c.Need(state))+deviation-level, until
		if short <= 0 {
			continue
		}
		if gain := refill - taken; gain > 0 {
			then = min(until, d.now+int64(short/gain)+1)
		}
		if then > at {
			at, limit = then, c.Limit.Name
		}
	}
	return at, limit
}
