package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Patterns of requests: at regular times, to each process in turn; at random times, to random
// processes; or the same with a quarter of the processes at a time.
const (
	smooth = iota
	random
	bursty
)

// mix is a fleet that is run with and without prefetching. perSecond is the limit.
type mix struct {
	perSecond int64
	processes int
	load      float64
	trip      time.Duration
	pattern   int
	limits    int // 3: also tokens per minute and a monthly budget
	life      time.Duration
}

// usual is the mix that the others vary.
func usual(perSecond int64, processes int, load float64) mix {
	return mix{perSecond: perSecond, processes: processes, load: load, trip: 4 * time.Millisecond, pattern: random,
		limits: 1, life: 500 * time.Millisecond}
}

// with changes the pattern, the round trip, and the number of limits.
func (m mix) with(pattern int, trip time.Duration, limits int) mix {
	m.pattern, m.trip, m.limits = pattern, trip*time.Millisecond, limits
	return m
}

// held changes how long tokens may be held. The bucket fills in at least twice that time.
func (m mix) held(life time.Duration) mix {
	m.life = life
	return m
}

// fleet returns the mix as a case.
func (m mix) fleet() Case {
	fills := max(1, int64(2*m.life/time.Second))
	rate := limiter.PerSecond("rps", m.perSecond).WithCapacity(m.perSecond * fills)
	b := Bucket{Limits: []limiter.Limit{rate}, Cost: one}
	if m.limits == 3 {
		b.Limits = append(b.Limits, limiter.PerMinute("tpm", m.perSecond*60_000),
			limiter.Quota("spend", 50_000_000_000, limiter.Monthly(1, "")))
		b.Cost = func(r *rand.Rand) []int64 { return []int64{1, 500 + r.Int64N(1001), 400 + r.Int64N(600)} }
	}
	b.Name = fmt.Sprintf("%d per second, capacity %d, %d limits, pattern %d", m.perSecond, m.perSecond*fills, m.limits,
		m.pattern)
	c := Case{Bucket: b, Processes: m.processes, Load: m.load, Trip: m.trip, Seed: 1,
		Smooth: m.pattern == smooth, Bursty: m.pattern == bursty, Options: limiter.Options{MaxShards: 1}}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	granted := min(m.load, 1) * float64(m.perSecond)
	c.Warm = max(4*time.Second, 8*m.life)
	c.For = max(seconds(4000/granted), 8*time.Second, 16*m.life)
	if m.pattern == bursty { // a process learns from finished bursts; few processes have few of them
		c.Warm, c.For = max(c.Warm, 40*time.Second), max(c.For, time.Duration(max(100, 1600/m.processes))*time.Second)
	}
	if m.load > 1 { // the bucket is drained: its rest at the end is no loss, and should matter little
		c.For = max(2*c.For, 40*time.Second)
		c.Warm = max(c.Warm, 2*seconds(float64(fills)/(m.load-1)))
	}
	return c
}

// neverWorse are some fleets that gain much from Ahead, and some with one to eight requests per
// process and life, which could lose by it. -grid runs all.
func neverWorse() []mix {
	const second = time.Second
	if !*grid {
		return []mix{
			usual(100, 4, .9), usual(100, 16, .9), usual(100, 32, .9), usual(100, 16, 1.5), usual(100, 64, 5),
			usual(100, 8, .9).with(smooth, 15, 3), usual(100, 16, .9).with(random, 60, 3),
			usual(100, 4, 1.5).with(smooth, 60, 1), usual(100, 1, 5).with(random, 60, 3),
			usual(100, 16, .5).with(bursty, 4, 1), usual(1000, 256, .5), usual(10, 4, .9).held(5 * second),
		}
	}
	var all []mix
	n := 0
	for _, perSecond := range []int64{10, 100, 1000, 10_000} {
		for _, processes := range []int{1, 4, 16, 64, 256} {
			for _, load := range []float64{.5, .9, 1.5, 5} {
				if perSecond == 10_000 && (load > 1 || processes == 4) { // too many requests for too little news
					continue
				}
				m := usual(perSecond, processes, load)
				all = append(all, m)
				if perSecond == 10_000 {
					continue
				}
				// Other patterns, round trips and limits come with every third fleet.
				pattern, trip, limits := []int{smooth, smooth, random}[n%3], trips[1+n/3%2], 1+2*(n%2)
				all = append(all, m.with(pattern, trip, limits))
				if n++; perSecond < 1000 {
					all = append(all, m.held(5*second))
				}
				if perSecond == 100 && processes > 1 && processes < 256 {
					all = append(all, m.with(bursty, trips[n%3], 1))
				}
			}
		}
	}
	return all
}

// With Ahead, a grant costs at most 1.02 times as many writes, and at least 99 % as much is
// granted: for any load, any number of processes, and any distance.
func TestTakingAheadIsNeverWorse(t *testing.T) {
	for _, m := range neverWorse() {
		c := m.fleet()
		without := bubble(t, c.Run)
		c.Options.Ahead = m.life
		with := bubble(t, c.Run)
		writes, delivered := with.PerGrant()/without.PerGrant(), with.Delivered()/without.Delivered()
		said := fmt.Sprintf("%v, %v ahead: %.3f writes per grant, %.3f without; delivered %.2f %%, %.2f %% without",
			c, m.life, with.PerGrant(), without.PerGrant(), 100*with.Delivered(), 100*without.Delivered())
		t.Log(said)
		if writes > 1.02 || delivered < .99 || with.Excess > 0 || with.Failed > 0 {
			t.Errorf("%s: %.3f times the writes, %.4f of the grants, excess %+f, %d failed", said, writes, delivered,
				with.Excess, with.Failed)
		}
	}
}
