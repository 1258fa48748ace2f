package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// The buckets of fleets that prefetch.
var (
	// busier has ten times the rate of Busy.
	busier = Bucket{Name: "10,000 per second", Limits: []limiter.Limit{limiter.PerSecond("rps", 10_000)}, Cost: one}
	// minutes is the common pair of limits, a hundred times as large.
	minutes = Bucket{
		Name:   "60,000 and 96 M per minute",
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 60_000), limiter.PerMinute("tpm", 96_000_000)},
		Cost:   PerMinute.Cost,
	}
)

// budgeted is Busy with a monthly budget, of which each request takes 700.
var budgeted = Bucket{
	Name:   "1000 per second and a monthly budget",
	Limits: []limiter.Limit{limiter.PerSecond("rps", 1000), limiter.Quota("spend", 500_000_000, limiter.Monthly(1, ""))},
	Cost:   func(r *rand.Rand) []int64 { return []int64{1, 400 + r.Int64N(600)} },
}

// taken is a case of prefetching, with its bounds. A bound of zero is not checked.
type taken struct {
	Case
	perGrant  float64 // write units per granted acquire, at most
	delivered float64 // least share of an exact bucket's grants
	jain      float64 // least fairness
	waited    float64 // largest share of grants that had to wait; 0: any
}

// hardlyWaits requires that tokens are prefetched again before they run out.
func (c taken) hardlyWaits() taken {
	c.waited = .005
	return c
}

func takenAhead() []taken {
	const half, quarter = 500 * time.Millisecond, 250 * time.Millisecond
	at := func(b Bucket, processes int, load float64, life time.Duration, perGrant, delivered float64) taken {
		c := Case{Bucket: b, Processes: processes, Load: load, Seed: 1, Warm: 4 * time.Second, For: 20 * time.Second}
		c.Options = limiter.Options{Ahead: life, MaxShards: 1}
		return taken{Case: c, perGrant: perGrant, delivered: delivered}
	}
	bursty := at(Busy, 16, .5, quarter, .10, .995)
	bursty.Bursty = true
	uneven := at(Busy, 16, 1.5, half, .10, .97)
	uneven.Zipf, uneven.jain = 1.2, .95
	// 5.6 requests in a life. With minutes, a process could take more from the full bucket than it
	// refills.
	seldom := at(PerMinute, 16, .9, 10*time.Second, .37, .999)
	seldom.Warm, seldom.For = time.Minute, 30*time.Minute
	all := []taken{
		at(Busy, 16, .5, half, .11, .999).hardlyWaits(), at(Busy, 16, .9, half, .065, .999).hardlyWaits(),
		at(Busy, 16, 1.5, half, .075, .98), at(Busy, 16, 5, half, .095, .99),
		bursty, uneven, at(budgeted, 16, .9, half, .065, .999).hardlyWaits(),
		at(Busy, 1, .9, half, .005, .999).hardlyWaits(), at(PerMinute, 16, .9, half, 1.0812, .999), // as without
	}
	if !long() && !*grid {
		return all
	}
	all = append(all, at(budgeted, 16, 5, half, .095, .99), at(minutes, 16, .9, time.Second, .035, .999).hardlyWaits(),
		at(busier, 64, .9, half, .03, .999).hardlyWaits(), seldom)
	for _, trip := range []time.Duration{15, 60} {
		slow := []taken{at(Busy, 16, .5, half, .12, .99), at(Busy, 16, .9, half, .065, .99),
			at(Busy, 16, 5, half, .095, .99)}
		for _, c := range slow {
			c.Trip = trip * time.Millisecond
			all = append(all, c)
		}
	}
	// All processes are in other regions (docs/deploying.md).
	far := []taken{at(Busy, 16, .9, half, .10, .999), at(minutes, 16, .9, 2*time.Second, .015, .999).hardlyWaits(),
		at(minutes, 16, 5, 2*time.Second, .02, .98)}
	for _, c := range far {
		c.Trip = 150 * time.Millisecond
		all = append(all, c)
	}
	return all
}

// TestTakenAhead: one write takes tokens for many requests, exactly, and fairly. LONG=1 runs all of
// the design's table, and slower tables. -grid also runs the same without prefetching.
func TestTakenAhead(t *testing.T) {
	for _, c := range takenAhead() {
		r := bubble(t, c.Run)
		t.Logf("%v, %v ahead: %.4f writes per grant, delivered %.2f %%, low %.0f %%, waited %.2f %%, Jain %.3f, "+
			"excess %+.3f", c, c.Options.Ahead, r.PerGrant(), 100*r.Delivered(), 100*r.Low, 100*r.Waited, r.Jain, r.Excess)
		if *grid {
			beside := c.Case
			beside.Options.Ahead = 0
			t.Logf("%v, nothing ahead: %.4f writes per grant", c, bubble(t, beside.Run).PerGrant())
		}
		if r.Excess > 0 || r.Failed > 0 {
			t.Errorf("%v: excess %+f, %d failed", c, r.Excess, r.Failed)
		}
		if c.waited > 0 && r.Waited > c.waited {
			t.Errorf("%v: %.2f %% of the grants waited for a write, want at most %.1f %%", c, 100*r.Waited, 100*c.waited)
		}
		if c.perGrant > 0 && r.PerGrant() > c.perGrant || r.Delivered() < c.delivered || r.Jain < c.jain {
			t.Errorf("%v: %.4f writes per grant, want at most %.3f; delivered %.2f %%, want %.1f %%; Jain %.3f, want %.2f", c,
				r.PerGrant(), c.perGrant, 100*r.Delivered(), 100*c.delivered, r.Jain, c.jain)
		}
	}
}

// TestFleetsRecoverFromCrashes: every tenth process crashes. Two lives later, everything is delivered
// again.
func TestFleetsRecoverFromCrashes(t *testing.T) {
	for _, load := range []float64{.9, 1.5} {
		c := Case{Bucket: Busy, Processes: 20, Load: load, Seed: 1, Warm: 14 * time.Second, For: 10 * time.Second,
			Crash: 3 * time.Second, Options: limiter.Options{Ahead: 500 * time.Millisecond, MaxShards: 1}}
		r := bubble(t, c.Run)
		again := float64(r.After.granted) / float64(r.After.exact)
		t.Logf("%v: delivered %.2f %%, %.2f %% of it since two lives after; excess %+.3f", c, 100*r.Delivered(), 100*again,
			r.Excess)
		if r.Excess > 0 || r.Failed > 0 || again < .98 || load < 1 && again < .995 {
			t.Errorf("%v: %.2f %% delivered again, excess %+f, %d failed", c, 100*again, r.Excess, r.Failed)
		}
	}
}
