package ahead

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Demand is what a process has lately been asked for of a shard, by limit, in millitokens per
// millisecond. It counts each request once, also one that is denied: of processes that share
// a saturated bucket, one that gets little would else ask for less and less. The zero Demand
// is none.
type Demand struct {
	requests float64
	costs    []flow
	at       int64 // epoch ms
}

type flow struct {
	limit string
	milli float64
}

// fades is how long, in milliseconds, a request counts for the most part.
const fades = 850

// Asked takes in a request at an instant.
func (d *Demand) Asked(costs []table.Cost, now int64) {
	d.fade(now)
	d.requests += 1. / fades
	for _, c := range costs {
		if c.Milli > 0 {
			d.add(c.Limit.Name, float64(c.Milli)/fades)
		}
	}
}

func (d *Demand) add(limit string, milli float64) {
	for i := range d.costs {
		if d.costs[i].limit == limit {
			d.costs[i].milli += milli
			return
		}
	}
	d.costs = append(d.costs, flow{limit, milli})
}

func (d *Demand) fade(now int64) {
	if now <= d.at {
		return
	}
	left := math.Exp(-float64(now-d.at) / fades)
	d.at, d.requests = now, d.requests*left
	for i := range d.costs {
		d.costs[i].milli *= left
	}
}

// Of returns the demand for a limit.
func (d *Demand) Of(limit string) float64 {
	for i := range d.costs {
		if d.costs[i].limit == limit {
			return d.costs[i].milli
		}
	}
	return 0
}

const (
	// worthwhile is how many requests an allotment must serve to be taken.
	worthwhile = 2
	// part is how much of the demand of its life an allotment is for. More of it ends unspent.
	part = 0.8
	// most is how much of it may be held, with what is left of the last one.
	most = 0.95
)

// Life returns for how long, in milliseconds, tokens of the limits may be held, at most what
// is asked for: half of the time in which the fastest of them fills, because near full a
// level is shown lower by what is held. It is zero where one of them is a quota, because what
// is held at its edge would be granted in the next period, or slots, which nobody holds,
// or soft, because that tells of each request whether it was there.
func Life(costs []table.Cost, most int64) int64 {
	for _, c := range costs {
		if !c.Limit.IsRate() || c.Limit.Soft {
			return 0
		}
		most = min(most, bucket.Wait(0, 0, c.Limit.Whole(), c.Limit.Capacity)/2)
	}
	return min(most, bucket.MaxAhead)
}

// Busy reports whether the demand is several requests in so many milliseconds.
func (d *Demand) Busy(life, now int64) bool {
	d.fade(now)
	return d.requests*float64(life) >= worthwhile
}

// Size returns how much to take ahead, in whole tokens, of all limits of costs, or nil if it
// does not pay: what is granted in its life for the most part, or less if much is left, and at
// most half of what the levels leave, so that the last tokens are not stranded in one process.
// Where one limit has less, less is taken of all; short tells that one has too little for
// anything. levels are in the order of the costs, with these taken.
func (d *Demand) Size(costs []table.Cost, levels []int64, left func(limit string) int64,
	life, now int64) (take []table.Cost, short bool) {
	if !d.Busy(life, now) {
		return nil, false
	}
	share := 1.
	want := func(c table.Cost) float64 {
		whole := d.Of(c.Limit.Name) * float64(life)
		return max(0, min(whole*part, whole*most-float64(left(c.Limit.Name))))
	}
	for i, c := range costs {
		if w := want(c); w > 0 {
			share = min(share, max(0, float64(levels[i])/2)/w)
		}
	}
	if d.requests*float64(life)*part*share < 1 {
		return nil, true
	}
	out, some := make([]table.Cost, len(costs)), false
	for i, c := range costs {
		out[i] = table.Cost{Limit: c.Limit, Milli: int64(want(c)*share/bucket.Milli) * bucket.Milli}
		some = some || out[i].Milli > 0
	}
	if !some {
		return nil, false
	}
	return out, false
}
