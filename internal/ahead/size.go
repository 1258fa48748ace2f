package ahead

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	// worthwhile is how many requests an allotment must serve to be taken.
	worthwhile = 2
	// part is how much of the demand of its life an allotment is for. With more, more ends unspent.
	part = 0.8
	// most is how much of that demand may be held, with what is left of the last allotment.
	most = 0.95
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

// Busy reports whether the demand is several requests in so many milliseconds.
func (d *Demand) Busy(life, now int64) bool {
	return d.Requests(now)*float64(life) >= worthwhile
}

// Size returns how much to take ahead, in whole tokens, of all limits of costs, or nil if it does
// not pay. It takes most of what is granted in a life, or less if much is left. It takes at most
// half of what the levels leave, so that the last tokens are not stranded in one process. Where one
// limit has less, less is taken of all; short tells that one has too little for anything. levels
// are in the order of the costs, with these taken.
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
	if d.Requests(now)*float64(life)*part*share < 1 {
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

// Plenty reports whether a quarter of every level covers most of what is granted in a life. Then
// others that take as much leave enough for this process.
func (d *Demand) Plenty(costs []table.Cost, levels []int64, life int64) bool {
	for i, c := range costs {
		if want := d.Of(c.Limit.Name) * float64(life) * part; want > 0 && float64(levels[i])/4 < want {
			return false
		}
	}
	return true
}

const (
	// renewAt is how much of what was taken last, in percent, is left when more is taken.
	renewAt = 20
	// More is taken now if fewer than renewFor requests are expected in the time that is left to
	// renew: until the last allotment ends, less a trip. Of requests that come at random, none comes
	// in that time at one of e^3 = 20 ends.
	renewFor = 3
)

// Low reports whether more is to be taken ahead now, so that the next request need not wait for it.
// There are three reasons. Little is left of what the last charge took. The last allotment ends
// soon. Or the rest would be used up while a write and its answer are under way, trip milliseconds.
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
