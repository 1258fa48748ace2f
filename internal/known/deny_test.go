package known

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A limit is short of what has to be left for others too: of 10, half of it for others, a cost of
// 3 needs 8. What costs nothing leaves everything.
func TestDenialsReckonWithFloors(t *testing.T) {
	perDay := bucket.Limit{Name: "rpd", Capacity: 100_000, Amount: 100_000, Period: 86_400_000}
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	image := table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: 1,
		State: bucket.New([]bucket.Limit{perDay, perSecond}, 0, 1, noon)}
	image.State.Slots[image.State.Index("rpd")].Tokens = 0
	image.State.Slots[image.State.Index("rps")].Tokens = 1000
	b.See(image, noon, Unsent)
	for cost, after := range map[int64]int64{3000: 7000, 1: 4001, 0: 0} {
		want := asks(0)
		want.Costs = table.Costs([]bucket.Limit{perDay, perSecond}, 1000, cost)
		want.Costs[1].Floor = 50
		d := b.Decide(want, &Attempt{}, clock(noon))
		if l := d.Denial.Levels; d.Do != Deny || l[0].After != 864_000 || l[1].After != after {
			t.Errorf("a cost of %d: %+v, %+v, want %d ms", cost, d.Choice, d.Denial.Levels, after)
		}
	}
}

// A denial by limits that are not stored has them stored first, on the shard that denies, or
// where none ever can, on the first that has others.
func TestOnWhichShardLimitsAreAdopted(t *testing.T) {
	before := perSecond
	before.Amount = 7000
	for _, c := range []struct {
		denial Choice
		stored [2]bucket.Limit
		shard  int
		adopts bool
	}{
		{Choice{Do: Deny, Shard: 1}, [2]bucket.Limit{perSecond, before}, 1, true},
		{Choice{Do: Deny, Shard: 0}, [2]bucket.Limit{perSecond, before}, 0, false},
		{Choice{Do: Never, Shard: 0}, [2]bucket.Limit{perSecond, before}, 1, true},
		{Choice{Do: Never, Shard: 1}, [2]bucket.Limit{before, before}, 0, true},
		{Choice{Do: Never, Shard: 1}, [2]bucket.Limit{perSecond, perSecond}, 0, false},
	} {
		k := factsOf(2)
		for shard, limit := range c.stored {
			image := imageOf(shard, 2, 0)
			image.State.Slots[image.State.Index("rps")].Limit = limit
			k.see(image, noon, Unsent, nil)
		}
		d := decider{facts: k, now: noon, want: asks(1, perSecond), attempt: &Attempt{}}
		if shard, adopts := d.unadopted(c.denial); adopts != c.adopts || adopts && shard != c.shard {
			t.Errorf("%+v of %v: on shard %d, %t", c.denial, c.stored, shard, adopts)
		}
		d.attempt.Adopted = true // this request has tried
		if _, adopts := d.unadopted(c.denial); adopts {
			t.Errorf("%+v of %v: again", c.denial, c.stored)
		}
	}
}
