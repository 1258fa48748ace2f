package fleet

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// grid is set by `make bench` to print all figures.
var grid = flag.Bool("grid", false, "run all fleets and print their costs")

// long reports whether to run fleets that take minutes. `make test-long` sets LONG.
func long() bool { return os.Getenv("LONG") != "" }

// TestGrid prints the table of fleets, and the results of fleets in trouble. -run Grid/NAME selects
// a part.
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
			c.Processes, c.Python = 0, 1
			say("%-29s %3.0f %%  Python model   %v", b.Name, 100*load, bubble(t, c.Run))
		})
	}
}

func smallBursts(t *testing.T) {
	c := Case{Bucket: Burst, Processes: 16, Seed: 1}
	for _, c.Load = range []float64{.5, .9, 1.5} {
		say("%-29s %3.0f %%  %3d processes  %v", c.Bucket.Name, 100*c.Load, c.Processes, bubble(t, c.Lasting(1500).Run))
	}
}

// roundTrips prints the cost of fleets with slower tables.
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

// frontier prints the cost of exact levels: writes against how low the level is shown, by
// Options.Slack.
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
