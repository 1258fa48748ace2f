package known

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A cost that no shard covers is divided among them in whole tokens, the fullest first. One
// that is in debt in any limit pays nothing, and together they must hold enough.
func TestShardsPayTogether(t *testing.T) {
	first := bucket.Limit{Name: "rps", Capacity: 40_000, Amount: 4000, Period: 1000} // 10 for each shard
	other := bucket.Limit{Name: "tps", Capacity: 40_000, Amount: 4000, Period: 1000}
	soft := other
	soft.Soft = true
	type levels [2]int64 // of both limits, in millitokens
	for _, c := range []struct {
		name   string
		second bucket.Limit
		shards []levels
		cost   [2]int64 // in tokens
		want   string   // shard:rps/tps, in tokens
	}{
		{"two pay all", other, []levels{{3_500, 9_000}, {2_200, 9_000}, {4_000, 9_000}, {0, 0}}, [2]int64{7, 2},
			" 2:4/2 0:3/0"},
		{"none is enough", other, []levels{{3_500, 9_000}, {2_200, 9_000}, {1_000, 9_000}, {900, 0}}, [2]int64{7, 0}, ""},
		{"one is in debt", other, []levels{{4_000, 9_000}, {4_000, -1}, {3_000, 9_000}, {0, 0}}, [2]int64{8, 0}, ""},
		{"its debt is soft", soft, []levels{{5_000, 9_000}, {4_000, -1}, {3_000, 9_000}, {0, 0}}, [2]int64{9, 0},
			" 0:5/0 1:4/0"},
	} {
		var images []table.Shard
		for k, l := range c.shards {
			image := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
				State: bucket.New([]bucket.Limit{first, c.second}, k, 4, noon)}
			image.State.Slots[image.State.Index("rps")].Tokens = l[0]
			image.State.Slots[image.State.Index("tps")].Tokens = l[1]
			images = append(images, image)
		}
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{first, c.second}, c.cost[0]*bucket.Milli, c.cost[1]*bucket.Milli)
		got := ""
		for _, p := range ByLevels(images, w, noon) {
			got += fmt.Sprintf(" %d:%d/%d", p.Image.State.Shard, p.Costs[0].Milli/bucket.Milli, p.Costs[1].Milli/bucket.Milli)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
