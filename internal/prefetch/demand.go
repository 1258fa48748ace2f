package prefetch

import (
	"math"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Demand is the recent demand of a process on a shard, by limit. It counts each request once, even
// if it is denied: otherwise, of several processes that share a saturated bucket, one with few
// grants would ask for less and less. The zero Demand is none.
type Demand struct {
	requests float64 // each counts for 1, fading over time
	costs    sums[float64]
	fades    float64 // the time, in milliseconds, over which a request fades
	began    int64   // when the first request after a silence came, epoch ms
	last     int64   // when the last request came
	at       int64   // the instant of requests and costs
	granted  float64 // requests since the last silence
	burst    float64 // the mean of granted before earlier silences; zero: there was no silence
	since    float64 // requests since the last denial; zero: no denial yet
}

const (
	// fadesFrom is the shortest fading time, in milliseconds.
	fadesFrom = 850
	// fadesLives is the shortest fading time in lives: fewer requests cannot predict how many will
	// come in a life.
	fadesLives = 1.7
	// seenFrom is the part of the fading time that counts as observed when the first requests come
	// after a silence. So two requests predict at most 2/(1.7 * 0.85) = 1.4 in a life. With a
	// smaller part, processes that start together prefetch so much so early that some of them are
	// denied. With all of it, a bursty fleet writes 10 % more.
	seenFrom = .85
	// whole is the number of fading times after which the estimate is complete: 1 - e^-40 is 1 in
	// floating point.
	whole = 40
)

// Asked records a request. life is how long, in milliseconds, tokens prefetched for such requests
// may be held. Slots are not prefetched.
func (d *Demand) Asked(costs []table.Cost, life, now int64) {
	d.fades = max(fadesFrom, fadesLives*float64(life))
	d.fade(now)
	if float64(now-d.last) > d.fades {
		if d.last > 0 {
			d.burst += (max(1, d.granted) - d.burst) / 4
		}
		d.granted, d.began, d.requests, d.costs = 0, now, 0, d.costs[:0]
	}
	d.last = max(d.last, now)
	d.requests++
	d.granted++
	if d.since > 0 {
		d.since++
	}
	for _, c := range costs {
		if c.Milli > 0 && !c.Limit.Returns() {
			d.costs.add(c.Limit.Name, float64(c.Milli))
		}
	}
}

// Denied records that the last request was denied.
func (d *Demand) Denied() {
	d.granted--
	d.since = 1
}

func (d *Demand) fade(now int64) {
	if now <= d.at || d.fades == 0 {
		return
	}
	left := math.Exp(-float64(now-d.at) / d.fades)
	d.at, d.requests = now, d.requests*left
	for i := range d.costs {
		d.costs[i].milli *= left
	}
}

// seen returns how much observed time, in milliseconds, the counted requests stand for; after a
// long time it is fades. Example: after 1,615 ms with one request every 10 ms, they count for 72 of
// 85, and the time for 723 of 850 ms: again one every 10 ms.
func (d *Demand) seen() float64 {
	fades := max(d.fades, 1)
	since := float64(max(0, d.at-d.began)) / fades
	if since > whole {
		return fades
	}
	return fades * max(seenFrom, 1-math.Exp(-since))
}

// Of returns the demand for a limit, in millitokens per millisecond.
func (d *Demand) Of(limit string) float64 { return d.costs.of(limit) / d.seen() }

// Requests returns how many requests come in a millisecond.
func (d *Demand) Requests(now int64) float64 {
	d.fade(now)
	return d.requests / d.seen()
}
