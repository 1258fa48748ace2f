package fleet

import (
	"context"
	"fmt"
	"testing"
)

// TestSplitBucketsPayWhatTheTableSays: 8 processes on 8 shards, where requests are small
// against a share, and where some are as large as two of them. What is delivered is
// counted in tokens: an exact bucket grants other requests. What docs/measured.md says is
// what this prints.
func TestSplitBucketsPayWhatTheTableSays(t *testing.T) {
	const shards = 8
	for _, want := range []struct {
		bucket        Bucket
		load          float64
		writes, reads float64 // units per granted acquire, at most
	}{
		{Hot, .5, 1.2, 0.05},
		{Hot, .9, 1.2, 0.05},
		{Hot, 1.5, 1.5, 0.05},
		{Hot, 5, 1.6, 0.05},
		{Mixed, .5, 2, 1.5}, // three shards pay for 25 at least, six units
		{Mixed, .9, 2, 1.5},
		{Mixed, 1.5, 2, 1.5},
		{Mixed, 5, 2, 1.5},
	} {
		c := Case{Bucket: want.bucket, Processes: 8, Load: want.load, Seed: 1}.Lasting(1500)
		r := bubble(t, func(ctx context.Context) (Result, error) { return c.Split(ctx, shards) })
		reads, delivered := r.Reads/float64(max(r.Granted, 1)), float64(r.Tokens)/float64(max(r.Due, 1))
		line := fmt.Sprintf("%v on %d shards: %d granted, writes/grant %.2f, reads/grant %.2f, "+
			"delivered %.1f %% of tokens, low mean %.1f %%, excess %+.3f",
			c, r.Shards, r.Granted, r.PerGrant(), reads, 100*delivered, 100*r.Low, max(r.Excess, 0))
		t.Log(line)
		if *grid {
			say("%s", line)
		}
		if r.PerGrant() > want.writes || reads > want.reads || delivered < .95 {
			t.Errorf("%v: want at most %.2f write and %.2f read units, and 95 %% delivered", c, want.writes, want.reads)
		}
		if r.Excess > 0 || r.Failed > 0 || r.Shards != shards {
			t.Errorf("%v: excess %+f, %d failed, %d shards", c, r.Excess, r.Failed, r.Shards)
		}
	}
}
