package decide

import (
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The price of shards: how often a request is denied although all shards together
// hold enough, when one shard has to pay and when several may. What several deny is
// fractions of tokens.
func TestShardingTax(t *testing.T) {
	const capacity, tries = 1000, 1000
	rng := rand.New(rand.NewPCG(6, 3))
	limits := []bucket.Limit{
		{Name: "rpm", Capacity: capacity * bucket.Milli, Amount: capacity * bucket.Milli, Period: 60_000},
	}
	for _, count := range []int{2, 4, 8, 16, 32} {
		var single, several, there [3]int
		sizes := [3]int64{1, 20, 200}
		for n := range 3 * tries {
			k := factsOf(count)
			total, cost := int64(0), sizes[n%3]*bucket.Milli
			for i := range count {
				b := table.Shard{Namespace: "n", Entity: "acme", Resource: "gpt-4", State: bucket.New(limits, i, count, 1)}
				sl := &b.State.Slots[b.State.Index("rpm")]
				sl.Tokens = rng.Int64N(sl.Tokens + 1)
				total += sl.Tokens / bucket.Milli * bucket.Milli
				k.see(b, 1, Unsent, nil)
			}
			if total < cost {
				continue
			}
			there[n%3]++
			for _, spread := range []bool{false, true} {
				d := decider{facts: k, now: 1, attempt: &Attempt{Spread: !spread}, pick: rng.Uint64(),
					want: Want{Costs: table.Costs(limits, cost)}}
				if c := d.decide(); c.Do == Deny || c.Do == Never {
					if spread {
						several[n%3]++
					} else {
						single[n%3]++
					}
				}
			}
		}
		percent := func(of [3]int, i int) float64 { return 100 * float64(of[i]) / float64(there[i]) }
		t.Logf("%2d shards, requests of 1, 20 and 200 of %d: denied though it is there %.1f %%, %.1f %%, %.1f %% "+
			"when one shard pays; %.1f %%, %.1f %%, %.1f %% when several do", count, capacity, percent(single, 0),
			percent(single, 1),
			percent(single, 2), percent(several, 0), percent(several, 1), percent(several, 2))
		if several != [3]int{} {
			t.Errorf("%d shards: %v of %d requests denied although whole tokens are there", count, several, tries)
		}
		if single[2] == 0 {
			t.Errorf("%d shards: one shard covers everything; the test shows nothing", count)
		}
	}
}
