package ahead

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Life returns for how long, in milliseconds, tokens of the limits may be held, at most as long
// as asked for. It is half of the time in which the fastest rate fills, because near full a level
// is shown lower by what is held. It is zero if one of them is soft: a soft limit tells of each
// request whether its tokens were there. It is zero if one has a floor: held tokens are for
// requests that leave nothing to others. See [LifeFrom] for the edges of quotas. Nothing is taken
// ahead of slots: those of leases that have ended serve others for as long.
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

// How much is taken ahead follows from how much of it may end unspent.
const (
	// spare is the part that may, of a bucket that denies nothing: it costs writes only.
	spare = .03
	// spareUnused is the same, of what nobody takes of the refill, if that is more: at half load a tenth. It is for
	// half of the requests at most: with more, an allotment would often end before it is used up.
	spareUnused = .2
	// loss is the part of what is granted, of one that denies: that much others are denied. Half of
	// the hundredth that taking ahead may cost goes to requests that do not come, half to bursts that
	// end.
	loss = .005
	// several is for how many requests tokens are taken at least. For one they save one write, and may cost
	// others as many: a plain add is refused while anything is held.
	several = 2
)

// sure returns for how many requests tokens may be held of which a part is expected to end unspent, as
// requests come at random.
//
// Of n requests in m lives the rate may be any: it has a gamma distribution, and the number N that comes in
// the next life a negative binomial one. Token q+1 ends unspent if N <= q, so of q tokens the expected part
// is the mean of P(N <= 0) to P(N <= q-1). That grows with q, so the largest q is the first beyond which it
// is more.
//
// Example: 17 requests in three lives. None comes in the next with a chance of (3/4)^17 = 0.8 %, one at most
// with 4 %, two at most with 11 %. Of two tokens (0.8 + 4)/2 = 2.4 % are lost, of three 5.2 %. So two are
// taken where 3 % may end unspent, and none where 0.5 % may.
func (d *Demand) sure(life, now int64, part float64) (q float64) {
	d.fade(now)
	n, m := d.requests, d.seen()/float64(max(life, 1))
	if n == 0 || life == 0 {
		return 0
	}
	mean := n / m
	q = max(0, math.Floor(mean-8*math.Sqrt(mean*(1+1/m)))) // fewer never come
	all, _ := math.Lgamma(n + q)
	seen, _ := math.Lgamma(n)
	next, _ := math.Lgamma(q + 1)
	p := math.Exp(all - seen - next + n*math.Log(m/(m+1)) - q*math.Log(m+1)) // P(N = q)
	atMost, sum := p, p
	for sum <= part*(q+1) && q < 2*mean {
		p *= (n + q) / (q + 1) / (m + 1)
		q++
		atMost += p
		sum += atMost
	}
	return q
}

// Burst returns for how many requests tokens may be held or saved up of a bucket that denies, since requests
// may end at any moment, as they did before: a part of what was granted between silences.
func (d *Demand) Burst() float64 {
	if d.before == 0 {
		return math.MaxFloat64
	}
	return loss * max(d.before, d.granted)
}

// most returns for how many requests tokens may be held. What is held lowers a full bucket, and is missed
// when that runs empty. So who is denied again and again holds a part of what is granted between denials, until
// that is for a life. A process that keeps pace with a saturated bucket never finds that full.
func (d *Demand) most(paced bool, unused float64, life, now int64) float64 {
	missed, requests := loss*max(d.gap, d.since), d.Requests(now)*float64(life)
	if !paced && (d.gap == 0 || missed >= requests) {
		q := d.sure(life, now, spare)
		if d.Burst() >= requests {
			q = max(q, min(math.Floor(requests/2), d.sure(life, now, spareUnused*unused)))
		}
		return q
	}
	q := min(d.sure(life, now, loss), d.Burst())
	if !paced {
		q = min(q, missed)
	}
	return q
}

// Busy reports whether the demand is several requests in so many milliseconds.
func (d *Demand) Busy(life, now int64) bool { return d.Requests(now)*float64(life) >= several }

// Takes reports whether tokens are taken ahead also where they are scarce.
func (d *Demand) Takes(life, now int64) bool { return d.sure(life, now, loss) >= several }

// Size returns how much to take ahead, in whole tokens, of all limits of costs, or nil if it does not pay.
// With what is left, that is for as many requests as tokens may be held for, and of no limit more than room, in
// the order of the costs. Where one limit has less, less is taken of all. Unused is the part of the refill that
// nobody takes.
func (d *Demand) Size(costs []table.Cost, room []int64, paced bool, unused float64, left func(limit string) int64,
	life, now int64) (take []table.Cost) {
	most, share := d.most(paced, unused, life, now), 1.
	if most < several {
		return nil
	}
	each := most / d.Requests(now)
	want := func(c table.Cost) float64 {
		return max(0, d.Of(c.Limit.Name)*each-float64(left(c.Limit.Name)))
	}
	for i, c := range costs {
		if w := want(c); w > 0 {
			share = min(share, max(0, float64(room[i]))/w)
		}
	}
	if most*share < 1 {
		return nil
	}
	some := false
	take = make([]table.Cost, len(costs))
	for i, c := range costs {
		whole := math.Floor(want(c)*share/bucket.Milli + rounding)
		take[i] = table.Cost{Limit: c.Limit, Milli: int64(whole) * bucket.Milli}
		some = some || take[i].Milli > 0
	}
	if !some {
		return nil
	}
	return take
}

const (
	// rounding is what sums of floating point may lack of a whole token.
	rounding = 1e-6
	// renewAt is how much of what was taken last, in percent, is left when more is taken.
	renewAt = 20
)

// Low reports whether more is to be taken ahead now, so that the next request need not wait for it: if little
// is left of what the last charge took, or so little that it would be used up while a write and its answer are
// under way, trip milliseconds. If less is left than for a request, the next one asks for itself, and for more
// with the same write. So a renewal is no write besides, unless it saves several.
func (h *Holding) Low(d *Demand, taken []table.Cost, trip float64, now Instant) (low bool) {
	requests := d.Requests(now.Wall)
	for _, c := range taken {
		if c.Milli == 0 {
			continue
		}
		left, flow := float64(h.Left(c.Limit.Name, now)), d.Of(c.Limit.Name)
		if left*requests < flow {
			return false
		}
		low = low || left <= max(float64(c.Milli)/100*renewAt, 2*trip*flow)
	}
	return low
}
