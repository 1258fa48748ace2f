package prefetch

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// worthwhile is how many requests must come in a life for anything to be kept for them.
	worthwhile = 2
	// seldom is of how many requests in a life most allotments would end unspent.
	seldom = 3.7
	// part is how much of the demand of its life an allotment is for. With more, more ends unspent.
	part = 0.85
	// most is how much of the same demand may be held, with the rest of the last allotment.
	most = 0.95
	// worth is how many writes a grant is worth. Of a hundred grants less than one is lost then.
	worth = 40
	// logistic is by what a normal distribution is nearly one over 1 + e^-x.
	logistic = 1.7
)

// Life returns for how long, in milliseconds, tokens of the limits may be held, at most the given
// time. It is at most half of the time in which the fastest rate fills, because near full the held
// tokens lower the visible level. It is zero if a limit is soft: a soft limit reports for each
// request whether its tokens were there. It is zero if a limit has a floor: held tokens are for
// requests that leave nothing to others. See [LifeFrom] for the edges of quotas. Slots are not
// prefetched: the slots of ended leases serve other requests for as long.
func Life(costs []table.Cost, most int64) int64 {
	for _, c := range costs {
		if c.Limit.Soft || c.Floor > 0 {
			return 0
		}
		if c.Limit.Refills() {
			most = min(most, bucket.Wait(0, 0, c.Limit.Whole(), c.Limit.Capacity)/2)
		}
	}
	return min(most, bucket.MaxAhead)
}

// Busy reports whether the demand is several requests in so many milliseconds.
func (d *Demand) Busy(life, now int64) bool {
	return d.Requests(now)*float64(life) >= worthwhile
}

// Sure returns for how many requests tokens may be held where they are scarce, zero for none.
func (d *Demand) Sure(life, now int64) float64 {
	if q := d.sure(1, life, now); q >= worthwhile {
		return q
	}
	return 0
}

// sure returns for how many requests tokens may be held. A token saves a write if it is granted. If it
// expires, it is missed with a chance of price, which costs as much as worth*price writes. So it is
// held if the risk that it expires is below 1/(1 + worth*price). There are two risks. Requests come at
// random: of n that are expected, fewer than n - z*sqrt(n) come with a chance of 1/(1 + e^(1.7 z)),
// nearly. And they may end at any moment, as they did before: in the time of q requests with a
// chance of q/n if n come without a silence. Four times that is reckoned, because the share that is saved
// up for them is late, too, and bursts differ. Example: of 25 requests 14 where all that expires is missed.
func (d *Demand) sure(price float64, life, now int64) float64 {
	requests, cost := d.Requests(now)*float64(life), worth*price
	q := min(part*requests, requests-max(0, math.Log(cost)/logistic)*math.Sqrt(requests))
	if d.burst > 0 {
		q = min(q, max(d.burst, d.granted)/4/(1+cost))
	}
	return q
}

// Missed returns the chance that a token which expires is missed, as the last denial shows: the part of the
// requests since then that come while the bucket fills. It takes two lives at least, and longer if some of the
// refill is used: twice 2/unused is reckoned.
func (d *Demand) Missed(unused float64, life, now int64) float64 {
	if d.since == 0 {
		return 0
	}
	return min(1, 4*d.Requests(now)*float64(life)/(unused*d.since))
}

// Size returns how many whole tokens to prefetch of each limit of costs, or nil if it does not pay.
// It takes most of the demand of a life, less if much is left, and of no limit more than room, in
// the order of the costs. Where one limit has less, it takes less of all. The higher the price, the
// chance that a token which expires is missed, the less it takes.
func (d *Demand) Size(costs []table.Cost, room []int64, price float64, left func(limit string) int64,
	life, now int64) (take []table.Cost) {
	requests, share := d.Requests(now)*float64(life), 1.
	if requests < seldom {
		return nil
	}
	part := d.sure(price, life, now) / requests
	want := func(c table.Cost) float64 {
		whole := d.Of(c.Limit.Name) * float64(life)
		return max(0, min(whole*part, whole*most-float64(left(c.Limit.Name))))
	}
	for i, c := range costs {
		if w := want(c); w > 0 {
			share = min(share, max(0, float64(room[i]))/w)
		}
	}
	if requests*part*share < 1 {
		return nil
	}
	some := false
	take = make([]table.Cost, len(costs))
	for i, c := range costs {
		take[i] = table.Cost{Limit: c.Limit, Milli: int64(want(c)*share/bucket.Milli) * bucket.Milli}
		some = some || take[i].Milli > 0
	}
	if !some {
		return nil
	}
	return take
}

const (
	// renewAt is the rest of the last prefetch, in percent, at which the next one starts.
	renewAt = 20
	// More is taken now if fewer than renewFor requests are expected in the time that is left to
	// renew: until the last allotment ends, less a trip. Of requests that come at random, none comes
	// in that time at one of e^3 = 20 ends.
	renewFor = 3
)

// Low reports whether to prefetch more now, so that the next request need not wait for it. There
// are three reasons. Little is left of the last charge's tokens. The last allotment ends soon. Or
// the rest would be used up while a write and its answer are under way, trip milliseconds.
func (h *Holding) Low(d *Demand, taken []table.Cost, trip float64, now Instant) bool {
	some := false
	for _, c := range taken {
		if c.Milli == 0 {
			continue
		}
		some = true
		least := max(float64(c.Milli)/100*renewAt, 2*trip*d.Of(c.Limit.Name))
		if float64(h.Left(c.Limit.Name, now)) <= least {
			return true
		}
	}
	return some && (float64(h.lasts(now))-trip)*d.Requests(now.Wall) < renewFor
}

// lasts is how long, in milliseconds, the allotment lasts that lasts longest.
func (h *Holding) lasts(now Instant) (ms int64) {
	for i := range h.allotments {
		if a := &h.allotments[i]; !a.covers {
			ms = max(ms, min(a.until.Wall-now.Wall, a.until.Mono-now.Mono))
		}
	}
	return ms
}
