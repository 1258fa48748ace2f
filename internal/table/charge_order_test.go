package table

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

// Two charges from one image leave the same item in either order, except for attributes of the
// later instant.
func TestChargesCommute(t *testing.T) {
	both, one := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		image := randomBucket(rng, sampleNow)
		at := sampleNow + rng.Int64N(10_000)
		plan := func() item.Update {
			return Charge{Image: image, Costs: randomCosts(rng, image), Now: at, Lifetime: KeepLifetime}.Plan().Update
		}
		a, b := plan(), plan()
		if a.If == nil || b.If == nil {
			continue // denied
		}
		ab, heldAB := inOrder(t, image, a, b)
		ba, heldBA := inOrder(t, image, b, a)
		check.MustEqual(t, heldAB, heldBA, "seed %d", seed)
		if !heldAB {
			one++
			continue
		}
		both++
		if !item.EqualItems(ab, ba) {
			t.Fatalf("seed %d: in one order\n%sin the other\n%s", seed, itemtest.JSON(ab), itemtest.JSON(ba))
		}
	}
	t.Logf("%d times both held, %d times only the first", both, one)
	if both < 500 || one < 100 {
		t.Error("too few charges held to prove anything")
	}
}

func inOrder(t *testing.T, image Shard, writes ...item.Update) (it item.Item, held bool) {
	t.Helper()
	it = image.Item()
	for _, u := range writes {
		if !holds(t, u, it) {
			return it, false
		}
		it = applied(t, u, it)
	}
	return it, true
}

func randomBucket(rng *rand.Rand, now int64) Shard {
	limits := make([]bucket.Limit, 1+rng.IntN(3))
	for i := range limits {
		limits[i] = bucket.Limit{Name: string(rune('a' + i)), Capacity: 1 + rng.Int64N(50),
			Amount: 1 + rng.Int64N(30), Period: 1 + rng.Int64N(5_000)}
	}
	b := imageOf(1, limits, 0, 1, now)
	for i := range b.State.Slots[:len(limits)] {
		sl := &b.State.Slots[i]
		sl.Tokens, sl.Rest, sl.Used = rng.Int64N(sl.Capacity+1), rng.Int64N(sl.Period), rng.Int64N(1000)-500
		if sl.Tokens == sl.Capacity {
			sl.Rest = 0
		}
	}
	return b
}

func randomCosts(rng *rand.Rand, b Shard) []Cost {
	var out []Cost
	for _, sl := range b.State.Slots {
		if sl.Name != bucket.WCU {
			out = append(out, Cost{Limit: sl.Limit, Milli: rng.Int64N(sl.Capacity/2 + 1)})
		}
	}
	return out
}

// naive is a bucket with an exact level per limit.
type naive struct {
	levels map[string]buckettest.Exact
	at     int64
}

func (n *naive) pass(now int64) {
	for name, l := range n.levels {
		n.levels[name] = l.After(now - n.at)
	}
	n.at = now
}

func (n *naive) covers(costs []Cost, after int64) bool {
	for _, c := range costs {
		if !n.levels[c.Limit.Name].After(after).Covers(c.Milli) {
			return false
		}
	}
	return true
}

func (n *naive) take(costs []Cost) {
	for _, c := range costs {
		l := n.levels[c.Limit.Name]
		l.Level = new(big.Rat).Sub(l.Level, buckettest.Milli(c.Milli))
		n.levels[c.Limit.Name] = l
	}
}

// A second computation has one exact level per limit. A process alone on a bucket is granted
// exactly the bucket's tokens, after exactly the wait in a denial. The item agrees to the
// millitoken and the remainder, through debt, give-backs, refills and counters near their bounds.
func TestChargesOfOneProcessAreExact(t *testing.T) {
	var granted, denied int
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		now := int64(1_700_000_000_000)
		image := randomBucket(rng, now)
		n := &naive{map[string]buckettest.Exact{}, now}
		for i := range image.State.Slots {
			sl := &image.State.Slots[i]
			n.levels[sl.Name] = buckettest.NewExact(sl.Tokens, sl.Rest, image.State.Rate(i))
			sl.Used += []int64{0, math.MaxInt64 - 500, math.MinInt64 + 500}[seed%3]
		}
		stored := image.Item()
		for range 60 {
			now += rng.Int64N(20_000) >> rng.IntN(16)
			n.pass(now)
			c := Charge{Image: image, Costs: randomCosts(rng, image), Now: now, Lifetime: Lifetime(rng.IntN(3))}
			switch rng.IntN(8) {
			case 0:
				c.Costs = nil
			case 1:
				c.Force = true
			case 2:
				c.Force = true
				for i := range c.Costs {
					c.Costs[i].Milli *= -1
				}
			}
			plan := c.Plan()
			if enough := n.covers(c.Costs, 0); plan.Verdict.Granted != enough && !c.Force {
				t.Fatalf("seed %d: granted %v, want %v: %v of %s", seed, plan.Verdict.Granted, enough, c.Costs,
					image.State)
			}
			if !plan.Verdict.Granted && !c.Force {
				denied++
				if wait := plan.Verdict.At - now; !n.covers(c.Costs, wait) || n.covers(c.Costs, wait-1) {
					t.Fatalf("seed %d: denied for %d ms for %v of %s", seed, wait, c.Costs, image.State)
				}
				continue
			}
			after := applied(t, plan.Update, stored)
			granted++
			n.take(c.Costs)
			stored, image = after, decode(t, after)
			for i, sl := range image.State.Slots {
				want := n.levels[sl.Name].After(0).Level
				if have := buckettest.LevelAt(image.State, i, now); sl.Name != bucket.WCU && have.Cmp(want) != 0 {
					t.Fatalf("seed %d: holds %s of %s, want %s", seed, have.FloatString(6), sl.Name,
						want.FloatString(6))
				}
			}
		}
	}
	t.Logf("%d granted, %d denied", granted, denied)
	if granted < 500 || denied < 250 {
		t.Error("too few grants and denials to prove anything")
	}
}
