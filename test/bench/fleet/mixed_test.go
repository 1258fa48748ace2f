package fleet

import (
	"context"
	"testing"
	"time"
)

// TestWritersOnShards prints what writers of the Python algorithm, of ours and of both
// are delivered on a bucket of 1, 2, 4 and 8 shards, and the worst excess. Ours alone
// never admit too much; on one shard the model of Python does by less than a token.
// What is printed is in docs/python.md.
func TestWritersOnShards(t *testing.T) {
	t.Logf("%-24s %7s %10s %10s %14s", "writers", "shards", "delivered", "excess", "of capacity")
	for _, w := range []struct {
		name string
		Writers
	}{{"Python-like", Writers{Python: 8}}, {"Python-like and Go", Writers{Python: 4, Go: 4}}, {"Go", Writers{Go: 8}}} {
		for _, shards := range []int{1, 2, 4, 8} {
			c := Case{Bucket: PerSecond, Load: 3, Seed: 5, Warm: 2 * time.Second, For: 8 * time.Second}
			if w.Python == 0 {
				c.For *= 3 // looks come in bursts a second apart: what they deliver evens out
			}
			r := bubble(t, func(ctx context.Context) (Result, error) { return c.Mixed(ctx, w.Writers, shards) })
			t.Logf("%-24s %7d %8.1f %% %+10.2f %12.0f %%", w.name, r.Shards, 100*r.Delivered(), r.Excess,
				100*r.Excess/float64(c.Bucket.Limits[0].Capacity))
			if r.Shards != shards || r.Failed > 0 {
				t.Errorf("%s: %d shards, want %d; %d failed", w.name, r.Shards, shards, r.Failed)
			}
			if w.Python == 0 && r.Excess > 0 || shards == 1 && r.Excess > 1 {
				t.Errorf("%s on %d shards: excess of %f tokens", w.name, shards, r.Excess)
			}
			if w.Python > 0 && shards > 1 && r.Excess < 10 {
				t.Errorf("%s on %d shards: excess of %f tokens; the documents warn of more", w.name, shards, r.Excess)
			}
		}
	}
}
