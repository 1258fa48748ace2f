package fleet

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// hotKeys prints the cost of a key with a thousand and more requests per second, by the number of
// processes and the time of a call.
func hotKeys(t *testing.T) {
	for _, perSecond := range []int64{1000, 4000} {
		b := Bucket{Limits: []limiter.Limit{limiter.PerSecond("rps", perSecond)}, Cost: one}
		for _, c := range []Case{
			{Processes: 4, Trip: 4 * time.Millisecond}, {Processes: 16, Trip: 4 * time.Millisecond},
			{Processes: 64, Trip: 4 * time.Millisecond}, {Processes: 4, Trip: 15 * time.Millisecond},
			{Processes: 16, Trip: 15 * time.Millisecond}, {Processes: 64, Trip: 15 * time.Millisecond},
		} {
			c.Bucket, c.Load, c.Seed, c.Warm, c.For = b, .9, 1, 4*time.Second, 10*time.Second
			r := bubble(t, c.Run)
			say("hot key, %4d a second, 90 %% used  %2d processes  %-4v  %v  shards %d  failed %d",
				perSecond, c.Processes, c.Trip, r, r.Shards, r.Failed)
		}
	}
}
