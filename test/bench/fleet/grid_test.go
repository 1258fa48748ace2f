package fleet

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// grid asks for all the figures; `make bench` does.
var grid = flag.Bool("grid", false, "play all fleets and print what they pay")

// long reports whether what takes minutes is played; `make test-long` sets LONG.
func long() bool { return os.Getenv("LONG") != "" }

// TestGrid prints the table of fleets, and what becomes of a fleet in trouble.
// -run Grid/NAME chooses a part of it.
func TestGrid(t *testing.T) {
	if !*grid {
		return
	}
	for _, b := range []Bucket{PerMinute, PerSecond, Small} {
		t.Run(b.Name, func(t *testing.T) { fleets(t, b) })
	}
	t.Run("small bursts", smallBursts)
	t.Run("round trips", roundTrips)
	t.Run("hot keys", hotKeys)
	t.Run("lost answers", lostAnswers)
	t.Run("cold herds", coldHerds)
	t.Run("crowds", crowds)
	t.Run("floods", floods)
	t.Run("frontier", frontier)
	t.Run("dynoxide", realTime)
}

func fleets(t *testing.T, b Bucket) {
	for _, load := range []float64{.1, .5, .9, 1.5, 5} {
		c := Case{Bucket: b, Load: load, Seed: 1}.Lasting(1500)
		t.Run(fmt.Sprintf("%.0f", 100*load), func(t *testing.T) {
			for _, c.Processes = range []int{1, 16, 64, 256} {
				say("%-29s %3.0f %%  %3d processes  %v", b.Name, 100*load, c.Processes, bubble(t, c.Run))
			}
			model := bubble(t, func(ctx context.Context) (Result, error) { return c.Python(ctx), nil })
			say("%-29s %3.0f %%  Python model   %v", b.Name, 100*load, model)
		})
	}
}

func smallBursts(t *testing.T) {
	c := Case{Bucket: Burst, Processes: 16, Seed: 1}
	for _, c.Load = range []float64{.5, .9, 1.5} {
		say("%-29s %3.0f %%  %3d processes  %v", c.Bucket.Name, 100*c.Load, c.Processes, bubble(t, c.Lasting(1500).Run))
	}
}

// roundTrips prints what fleets pay behind slower tables.
func roundTrips(t *testing.T) {
	for _, trip := range trips {
		for _, c := range []Case{
			{Processes: 16, Load: .9}, {Processes: 64, Load: .9}, {Processes: 16, Load: 5}, {Processes: 64, Load: 5},
			{Processes: 16, Load: 5, Spike: 5 * time.Second},
		} {
			c.Bucket, c.Trip, c.Seed = PerSecond, trip*time.Millisecond, 1
			c.Warm, c.For = 10*time.Second, 50*time.Second
			r := bubble(t, c.Run)
			say("%-80v  %v  denied within %.1f round trips  failed %d", c, r, r.Trips(c), r.Failed)
		}
	}
}

func lostAnswers(t *testing.T) {
	for _, n := range []int{1, 16} {
		c := Case{Bucket: PerSecond, Processes: n, Load: .5, LoseOne: 200, Seed: 1}.Lasting(5000)
		r := bubble(t, c.Run)
		say("one write in 200 without an answer, %v: of %d requests %d fail and %d are slow, %d answers were lost; "+
			"delivered %.2f %%",
			c, r.Attempts, r.Failed, r.Slow, r.Lost, 100*r.Delivered())
	}
}

func coldHerds(t *testing.T) {
	for _, there := range []bool{true, false} {
		for _, n := range []int{16, 64, 256} {
			r := bubble(t, func(ctx context.Context) (Result, error) { return Herd(ctx, n, there) })
			say("cold herd of %3d on one bucket (there before: %5v)  writes/grant %.2f  granted %d  failed %d  slow %d",
				n, there, r.PerGrant(), r.Granted, r.Failed, r.Slow)
		}
	}
}

// paced is a result and how fast it came about.
type paced struct {
	Result
	perSecond float64
}

func crowds(t *testing.T) {
	for _, b := range []Bucket{PerSecond, Busy, Plenty} {
		for _, n := range []int{1, 8, 64} {
			r := bubble(t, func(ctx context.Context) (p paced, err error) {
				p.Result, p.perSecond, err = Crowd(ctx, b, n, 10*time.Second)
				return p, err
			})
			say("%2d goroutines of one process, %-30s  %6.0f grants/s  writes/grant %.2f  slow %d  failed %d",
				n, b.Name, r.perSecond, r.PerGrant(), r.Slow, r.Failed)
		}
	}
}

func floods(t *testing.T) {
	for _, shards := range []int{1, 32} {
		r := bubble(t, func(ctx context.Context) (p paced, err error) {
			p.Result, p.perSecond, err = Flood(ctx, 1000, shards, 4*time.Second)
			return p, err
		})
		say("1000 goroutines flood an exhausted key on %2d shards: %.1f writes/s, %d denied, %d granted, %d failed",
			shards, r.perSecond, r.Denied, r.Granted, r.Failed)
	}
}

// frontier prints what exact levels cost: writes against how low the level is
// shown, over Options.Slack.
func frontier(t *testing.T) {
	for _, b := range []Bucket{PerMinute, PerSecond, Small} {
		for _, n := range []int{16, 64, 256} {
			for _, load := range []float64{.5, .9} {
				line := fmt.Sprintf("frontier, %-29s %3d processes  %2.0f %%  slack: writes/grant, low mean ", b.Name, n, 100*load)
				for _, slack := range []int{5, 10, 15, 20, 25, 50, 100} {
					c := Case{Bucket: b, Processes: n, Load: load, Seed: 1, Options: limiter.Options{Slack: slack}}
					r := bubble(t, c.Lasting(1500).Run)
					line += fmt.Sprintf("  %d: %.2f, %.1f %%", slack, r.PerGrant(), 100*r.Low)
				}
				say("%s", line)
			}
		}
	}
}
