package fleet

import (
	"context"
	"sync"
	"testing"
	"time"
)

// target has the bounds of a fleet. A bound of zero is not checked.
type target struct {
	bucket    Bucket
	processes int
	loads     []float64
	perGrant  float64 // write units per grant, at most
	low       float64 // by how much the level may be shown too low on average, as a share of the capacity
	delivered float64 // least share of an exact bucket's grants
}

// targets are the bounds of the design's table of fleets, with the default of Options.Slack. The
// frontier that the benchmark prints shows that no fixed slack reaches all of them. The default
// depends on the charges of others.
var targets = []target{
	{PerMinute, 16, []float64{.1, .5, .9}, 1.05, 0.05, 0.999},
	{PerMinute, 64, []float64{.1, .5, .9}, 1.10, 0.15, 0.999},
	{PerSecond, 16, []float64{.1, .5, .9}, 1.15, 0.25, 0.99},
	{PerSecond, 64, []float64{.5}, 1.2, 0.25, 0.99}, // 1.6 without plain adds
	{PerSecond, 16, []float64{5}, 1.3, 0, 0.98},
	{PerSecond, 64, []float64{5}, 1.3, 0, 0.98},
	{PerSecond, 256, []float64{5}, 3.5, 0, 0.98},
	{Burst, 16, []float64{.1, .5, .9}, 0, 0, 0.98}, // small bursts are not given up
	{Busy, 1, []float64{1.5}, .3, 0, 0.98},         // requests of one process go together
}

// TestFleetsPayWhatTheTableSays (I8) counts in virtual time.
func TestFleetsPayWhatTheTableSays(t *testing.T) {
	const arrivals = 3000
	for _, want := range targets {
		for _, load := range want.loads {
			c := Case{Bucket: want.bucket, Processes: want.processes, Load: load, Seed: 1}.Lasting(arrivals)
			c.For = max(30*time.Second, time.Duration(arrivals/c.perSecond()*float64(time.Second)))
			r := bubble(t, c.Run)
			t.Logf("%v: %v", c, r)
			if want.perGrant > 0 && r.PerGrant() > want.perGrant {
				t.Errorf("%v: %.3f writes per grant, want at most %.2f", c, r.PerGrant(), want.perGrant)
			}
			if want.low > 0 && r.Low > want.low {
				t.Errorf("%v: shown low by %.1f %% in the mean, want at most %.0f %%", c, 100*r.Low, 100*want.low)
			}
			if r.Delivered() < want.delivered {
				t.Errorf("%v: delivered %.2f %%, want at least %.1f %%", c, 100*r.Delivered(), 100*want.delivered)
			}
			if r.Excess > 0 || r.Failed > 0 || r.Shards != 1 {
				t.Errorf("%v: excess %+f, %d failed, %d shards", c, r.Excess, r.Failed, r.Shards)
			}
		}
	}
}

// slow is a fleet on 100 per second, capacity 100, whose table takes longer than the 4 ms of the
// other tests.
type slow struct {
	Case
	perGrant float64 // write units per grant, at most
}

// slowTables are the design's table of round trips (5b), with tighter bounds where they are
// reached. Equal shares of a saturated bucket mean about one request per write, whatever the round
// trip. LONG=1 adds fleets of 64.
func slowTables() []slow {
	at := func(trip time.Duration, processes int, load, perGrant float64) slow {
		c := Case{Bucket: PerSecond, Processes: processes, Load: load, Trip: trip * time.Millisecond, Seed: 1}
		return slow{c, perGrant}
	}
	all := []slow{
		at(4, 16, 5, 1.3), at(15, 16, 5, 1.3), at(60, 16, 5, 1.1), at(150, 16, 5, 1.1),
		at(60, 16, .9, 1.15), at(150, 16, .9, 1.15),
	}
	if long() {
		all = append(all, at(4, 64, 5, 2), at(15, 64, 5, 1.5), at(60, 64, 5, 1.5), at(150, 64, 5, 1.5),
			at(60, 64, .9, 1.15), at(150, 64, .9, 1.2))
	}
	for _, trip := range trips {
		hurried, spiking := at(trip, 16, 5, 2), at(trip, 16, 5, 1.3)
		// Otherwise a read of configuration would take a round trip once a minute.
		hurried.Deadline, hurried.Options.ConfigTTL = 2*hurried.Trip, time.Hour
		spiking.Spike = 5 * time.Second
		all = append(all, hurried, spiking)
		for _, load := range []float64{.5, .9} { // no time for a second write if a charge is refused
			if crowd := hurried; trip == trips[0] {
				crowd.Processes, crowd.Load, crowd.perGrant = 64, load, 1.1
				all = append(all, crowd)
			}
		}
	}
	return all
}

// trips are the round trips of fleets, in ms: within a zone, within a region through a proxy,
// across a continent, and across an ocean.
var trips = []time.Duration{4, 15, 60, 150}

// TestSlowTables: if the table answers every call, however late, no result is unknown, and a denial
// takes at most three such round trips.
func TestSlowTables(t *testing.T) {
	for _, c := range slowTables() {
		c.Warm, c.For = 10*time.Second, 30*time.Second
		r := bubble(t, c.Run)
		t.Logf("%v: %v, denied within %.1f round trips", c, r, r.Trips(c.Case))
		if r.PerGrant() > c.perGrant || r.Delivered() < .95 || r.Excess > 0 {
			t.Errorf("%v: %.2f writes per grant, want at most %.2f; delivered %.2f %%, excess %+f", c, r.PerGrant(), c.perGrant,
				100*r.Delivered(), r.Excess)
		}
		if r.Failed > 0 || r.Unknown > 0 || r.Trips(c.Case) > 3 {
			t.Errorf("%v: %d failed, %d unknown; 99 of 100 denials within %.1f round trips, want none and 3", c, r.Failed,
				r.Unknown, r.Trips(c.Case))
		}
	}
}

// TestLostAnswerCostsOneRequest: a request without an answer fails, no other request waits for it,
// and all others are served.
func TestLostAnswerCostsOneRequest(t *testing.T) {
	for _, n := range []int{1, 16} {
		c := Case{Bucket: PerSecond, Processes: n, Load: .5, LoseOne: 200, Seed: 1, For: 60 * time.Second}
		r := bubble(t, c.Run)
		t.Logf("%v: %d failed, %d slow, %d answers lost of %d; %v", c, r.Failed, r.Slow, r.Lost, r.Attempts, r)
		if r.Lost < 5 || r.Failed > r.Lost || r.Slow > 0 || r.Denied > 0 || r.Excess > 0 {
			t.Errorf("%v: %d answers lost, %d of %d fail, %d are slow, %d denied, excess %+f",
				c, r.Lost, r.Failed, r.Attempts, r.Slow, r.Denied, r.Excess)
		}
	}
}

// TestColdHerd: new processes that start at one instant need one write each on an existing bucket.
func TestColdHerd(t *testing.T) {
	c := Case{Bucket: PerMinute, Seed: 1}
	r := bubble(t, func(ctx context.Context) (r Result, err error) {
		table := newTable(c)
		first, err := c.process(ctx, table, 0)
		if err == nil {
			err = first(ctx, []int64{300, 480_000}) // half of it
		}
		if err != nil {
			return r, err
		}
		time.Sleep(10 * time.Second)
		var fresh [64]process
		for i := range fresh {
			if fresh[i], err = c.process(ctx, table, i); err != nil {
				return r, err
			}
		}
		table.reset()
		o, tokens, begin := newOutcome(len(fresh)), []int64{1, 1000}, time.Now()
		var all sync.WaitGroup
		for i, p := range fresh {
			all.Go(func() { o.record(i, begin, tokens, false, p(ctx, tokens)) })
		}
		all.Wait()
		table.result(&o.Result)
		return o.Result, nil
	})
	if r.Writes != r.Attempts || r.Granted != r.Attempts {
		t.Errorf("%d processes pay %d writes for %d grants", r.Attempts, r.Writes, r.Granted)
	}
}
