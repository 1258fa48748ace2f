package fleet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Bucket is the limits that a fleet shares, and the cost of its requests.
type Bucket struct {
	Name   string
	Limits []limiter.Limit // loads are measured by the first one
	// Cost returns the cost of the next request, in tokens, one per limit.
	Cost func(*rand.Rand) []int64
	Mean float64 // cost of the first limit; zero is one
}

// one is the cost of a request that takes a single token.
func one(*rand.Rand) []int64 { return []int64{1} }

// The buckets of the published table.
var (
	// PerMinute is the usual pair: requests, and rarely decisive, model tokens.
	PerMinute = Bucket{
		Name:   "600 and 960k per minute",
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 960_000)},
		Cost:   func(r *rand.Rand) []int64 { return []int64{1, 400 + r.Int64N(1601)} },
	}
	// PerSecond refills its whole capacity every second.
	PerSecond = Bucket{
		Name:   "100 per second, capacity 100",
		Limits: []limiter.Limit{limiter.PerSecond("rps", 100)},
		Cost:   one,
	}
	// Small holds two seconds of two limits, either of which may decide.
	Small = Bucket{
		Name: "20, 10 per second, two limits",
		Limits: []limiter.Limit{limiter.PerSecond("rps", 10).WithCapacity(20),
			limiter.PerSecond("tps", 10_000).WithCapacity(20_000)},
		Cost: func(r *rand.Rand) []int64 { return []int64{1, 500 + r.Int64N(1001)} },
	}
	// Busy grants more than one write at a time can take.
	Busy = Bucket{
		Name:   "1000 per second, capacity 1000",
		Limits: []limiter.Limit{limiter.PerSecond("rps", 1000)},
		Cost:   one,
	}
	// Hot is a bucket with many writers that take single tokens.
	Hot = Bucket{
		Name:   "1800 a minute, capacity 100",
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1800).WithCapacity(100)},
		Cost:   one,
	}
	// Mixed has requests for single tokens, and one in ten for as much as two of eight shards hold.
	Mixed = Bucket{
		Name:   "100 a second, one in ten takes 25",
		Limits: []limiter.Limit{limiter.PerSecond("rps", 100)},
		Mean:   3.4,
		Cost: func(r *rand.Rand) []int64 {
			if r.IntN(10) == 0 {
				return []int64{25}
			}
			return []int64{1}
		},
	}
	// Burst is so small that every grant nearly empties it.
	Burst = Bucket{
		Name:   "burst 3 at 60 per second",
		Limits: []limiter.Limit{limiter.PerSecond("rps", 60).WithCapacity(3)},
		Cost:   one,
	}
)

// rates returns the limits as rates of package bucket.
func (b Bucket) rates() []bucket.Rate {
	out := make([]bucket.Rate, len(b.Limits))
	for i, l := range b.Limits {
		out[i] = bucket.Rate{Capacity: l.Capacity * bucket.Milli, Amount: l.Refill * bucket.Milli,
			Period: max(l.Period.Milliseconds(), 1)}
	}
	return out
}

// request returns a request with costs in the order of the limits.
func (b Bucket) request(costs []int64) limiter.Request {
	named := make(limiter.Costs, len(costs))
	for i, c := range costs {
		named[b.Limits[i].Name] = c
	}
	return limiter.Request{Entity: entity, Resource: resource, Costs: named, Limits: b.Limits}
}

const (
	entity   = "acme"
	resource = "gpt-4"
)

// Case is one run of a fleet on a bucket.
type Case struct {
	Bucket    Bucket
	Processes int           // limiters
	Python    int           // more processes, with the documented algorithm of the Python client
	Shards    int           // of the bucket, with the aggregator running if Python is set; 0: one undivided shard
	Load      float64       // arrivals, as a share of the rate of the first limit
	Warm      time.Duration // of traffic before counting starts
	For       time.Duration // of counted traffic
	LoseOne   int           // one write in this many gets no answer; 0: none
	Trip      time.Duration // to the table and back, on average; 0: 4 ms
	Spike     time.Duration // in the middle of the traffic, during which calls take four times as long; 0: none
	Deadline  time.Duration // of every acquire; 0: none
	Zipf      float64       // how unevenly requests are distributed: process k gets them with weight 1/k to this power
	Demand    []float64     // the part of the arrivals of each process; nil: equal parts
	Smooth    bool          // requests come at even intervals, to each process in turn
	Bursty    bool          // a process is active a quarter of the time, for seconds, at four times the rate
	Crash     time.Duration // after this part of the counted time, every tenth process ends and another begins; 0: none
	Seed      uint64
	Options   limiter.Options // of every limiter
}

// String describes the case in a line.
func (c Case) String() string {
	s := fmt.Sprintf("%s, %d processes, %.0f %%", c.Bucket.Name, c.Processes, 100*c.Load)
	if c.Trip > 0 {
		s += fmt.Sprintf(", %v a call", c.Trip)
	}
	if c.Spike > 0 {
		s += fmt.Sprintf(", %v in a spike of %v", spikeTimes*c.Trip, c.Spike)
	}
	if c.Crash > 0 {
		s += ", a crash"
	}
	if c.Deadline > 0 {
		s += fmt.Sprintf(", deadlines of %v", c.Deadline)
	}
	return s
}

// picker returns a function that picks the process of the next request at an instant, -1 for none.
func (c Case) picker(rng *rand.Rand, processes int) func(at time.Time) int {
	if c.Bursty {
		on, until := make([]bool, processes), make([]time.Time, processes)
		return func(at time.Time) int {
			k := rng.IntN(processes)
			for until[k].Before(at) {
				on[k] = rng.IntN(4) == 0
				until[k] = at.Add(time.Duration(2 * rng.ExpFloat64() * float64(time.Second)))
			}
			if !on[k] {
				return -1
			}
			return k
		}
	}
	if c.Smooth {
		next := -1
		return func(time.Time) int { next = (next + 1) % processes; return next }
	}
	if c.Demand != nil {
		return func(time.Time) int {
			left := rng.Float64()
			return max(0, slices.IndexFunc(c.Demand, func(part float64) bool { left -= part; return left < 0 }))
		}
	}
	if c.Zipf == 0 {
		return func(time.Time) int { return rng.IntN(processes) }
	}
	who := loadcheck.Zipf(processes, c.Zipf)
	return func(time.Time) int { return who.Draw(rng) }
}

// perSecond returns how many requests arrive in a second, on average.
func (c Case) perSecond() float64 {
	l := c.Bucket.Limits[0]
	mean := cmp.Or(c.Bucket.Mean, 1)
	if c.Bursty {
		mean /= 4
	}
	return c.Load * float64(l.Refill) / l.Period.Seconds() / mean
}

// Lasting returns the case with the time in which about n requests arrive, at least 100 s. A tenth
// of it precedes as warm-up; above the rate of the first limit, at least the time in which the
// traffic empties a full bucket.
func (c Case) Lasting(n int) Case {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	c.For = max(100*time.Second, seconds(float64(n)/c.perSecond()))
	c.Warm = c.For / 10
	if c.Load > 1 {
		l := c.Bucket.Limits[0]
		drain := float64(l.Capacity) / (float64(l.Refill) / l.Period.Seconds() * (c.Load - 1))
		c.Warm = max(c.Warm, seconds(drain))
	}
	return c
}
