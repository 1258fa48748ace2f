package fleet

import (
	"testing"
	"time"
)

// TestWritersOnShards prints how much writers of the Python algorithm, ours, and a mix of both
// deliver on a bucket of 1, 2, 4 and 8 shards, and the worst excess. Ours alone never admit too
// much. On one shard, the model of Python exceeds by less than a token. docs/python.md has the
// output.
func TestWritersOnShards(t *testing.T) {
	t.Logf("%-24s %7s %10s %10s %14s", "writers", "shards", "delivered", "excess", "of capacity")
	for _, w := range []struct {
		name         string
		python, ours int
	}{{"Python-like", 8, 0}, {"Python-like and Go", 4, 4}, {"Go", 0, 8}} {
		for _, shards := range []int{1, 2, 4, 8} {
			c := Case{Bucket: PerSecond, Python: w.python, Processes: w.ours, Shards: shards, Load: 3, Seed: 5,
				Warm: 2 * time.Second, For: 8 * time.Second}
			if w.python == 0 {
				c.For *= 3 // looks come in bursts a second apart, which evens out
			}
			r := bubble(t, c.Run)
			t.Logf("%-24s %7d %8.1f %% %+10.2f %12.0f %%", w.name, r.Shards, 100*r.Delivered(), r.Excess,
				100*r.Excess/float64(c.Bucket.Limits[0].Capacity))
			if r.Shards != shards || r.Failed > 0 {
				t.Errorf("%s: %d shards, want %d; %d failed", w.name, r.Shards, shards, r.Failed)
			}
			if w.python == 0 && r.Excess > 0 || shards == 1 && r.Excess > 1 {
				t.Errorf("%s on %d shards: excess of %f tokens", w.name, shards, r.Excess)
			}
			if w.python > 0 && shards > 1 && r.Excess < 10 {
				t.Errorf("%s on %d shards: excess of %f tokens; the documents warn of more", w.name, shards, r.Excess)
			}
		}
	}
}

// TestPythonModel compares the model with what the documents say of the Python client: one write
// below the rate, several above it, and refill lost there.
func TestPythonModel(t *testing.T) {
	for _, tt := range []struct {
		load        float64
		least, most float64 // writes per grant
	}{{.1, 1, 1.1}, {.5, 1, 1.2}, {5, 5, 15}} {
		c := Case{Bucket: PerSecond, Python: 1, Load: tt.load, Seed: 1, Warm: 5 * time.Second, For: 20 * time.Second}
		r := bubble(t, c.Run)
		t.Logf("%v: %v", c, r)
		if got := r.PerGrant(); got < tt.least || got > tt.most {
			t.Errorf("at %.0f %%: %.2f writes per grant, want %.2f to %.2f", 100*tt.load, got, tt.least, tt.most)
		}
		if tt.load > 1 && r.Delivered() > 0.95 {
			t.Errorf("at %.0f %%: delivered %.2f %%, the Python client loses refill there", 100*tt.load, 100*r.Delivered())
		}
	}
}
