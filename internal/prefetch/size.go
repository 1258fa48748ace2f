package prefetch

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// worthwhile is the least number of requests per life for which tokens are held.
	worthwhile = 2
	// seldom is the number of requests per life below which most allotments would expire unspent.
	seldom = 3.7
	// part is the share of a life's demand that an allotment covers. With a larger share, more
	// tokens expire unspent.
	part = 0.85
	// most is the share of the same demand that may be held, including the rest of the last
	// allotment.
	most = 0.95
	// worth is the cost of a lost grant in writes. With it, fewer than one grant in a hundred is
	// lost.
	worth = 40
	// logistic makes 1/(1 + e^-1.7x) close to the normal distribution.
	logistic = 1.7
)

// Life returns how long, in milliseconds, tokens of the limits may be held, at most the given time.
// It is at most half of the time in which the fastest rate fills, because held tokens lower the
// visible level of a nearly full bucket. It is zero if a limit is soft, because a soft limit
// reports for each request whether its tokens were available. It is zero if a limit has a floor,
// because held tokens are for requests that leave nothing to others. See [LifeFrom] for the edges
// of quotas. Slots are not prefetched: ended leases leave theirs to other requests for as long.
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

// Busy reports whether several requests are expected in life milliseconds.
func (d *Demand) Busy(life, now int64) bool {
	return d.Requests(now)*float64(life) >= worthwhile
}

// Sure returns for how many requests tokens may be held while they are scarce, or zero.
func (d *Demand) Sure(life, now int64) float64 {
	if q := d.sure(1, life, now); q >= worthwhile {
		return q
	}
	return 0
}

// sure returns for how many requests tokens may be held. A token saves a write if it is granted. If
// it expires, a request misses it with the probability price, at a cost of worth*price writes. So
// it is held if the risk that it expires is below 1/(1 + worth*price). There are two risks. First,
// requests come at random: if n are expected, fewer than n - z*sqrt(n) come with a probability of
// about 1/(1 + e^(1.7 z)). Second, requests may stop at any moment, as they did before: if n come
// without a silence, they stop within the time of q requests with a probability of q/n. The code
// uses four times that, because the share saved for them is late, too, and bursts differ. Example:
// with 25 requests expected, tokens for 14 are held if every expired token is missed. Without the
// second risk, four bursty processes are granted 1.5 % less.
func (d *Demand) sure(price float64, life, now int64) float64 {
	requests, cost := d.Requests(now)*float64(life), worth*price
	q := min(part*requests, requests-max(0, math.Log(cost)/logistic)*math.Sqrt(requests))
	if d.burst > 0 {
		q = min(q, max(d.burst, d.granted)/4/(1+cost))
	}
	return q
}

// Missed returns the probability that an expired token is missed, as of the last denial: the share
// of the requests since then that come while the bucket fills. Filling takes at least two lives,
// and longer if part of the refill is used; the code uses twice 2/unused. Without it, four bursty
// processes are granted 1 % less at 90 % of the rate.
func (d *Demand) Missed(unused float64, life, now int64) float64 {
	if d.since == 0 {
		return 0
	}
	return min(1, 4*d.Requests(now)*float64(life)/(unused*d.since))
}

// Size returns how many whole tokens of each limit to prefetch, or nil if it does not pay. It
// covers most of the demand of a life, less if much is left, and takes at most room of each limit,
// in the order of the costs. If one limit has less, it takes less of all. It also takes less if
// price is high, the probability that an expired token is missed.
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
	// More is prefetched at once if fewer than renewFor requests are expected in the time left to
	// renew: until the last allotment ends, less one round trip. With random requests, one
	// allotment in e^3 = 20 ends because none comes in that time.
	renewFor = 3
)

// Low reports whether to prefetch more now, to spare the next request the wait. There are three
// reasons: little is left of the last charge's tokens, the last allotment ends soon, or the rest
// would be used up during a write and its answer (trip milliseconds).
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

// lasts returns how long, in milliseconds, the longest-lived allotment lasts.
func (h *Holding) lasts(now Instant) (ms int64) {
	for i := range h.allotments {
		if a := &h.allotments[i]; !a.covers {
			ms = max(ms, min(a.until.Wall-now.Wall, a.until.Mono-now.Mono))
		}
	}
	return ms
}
