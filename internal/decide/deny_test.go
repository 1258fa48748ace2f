package decide

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A limit is short of its floor too: of 10, with a floor of half, a cost of 3 needs 8. A cost of
// zero leaves everything.
func TestDenialsReckonWithFloors(t *testing.T) {
	perDay := bucket.Limit{Name: "rpd", Capacity: 100_000, Amount: 100_000, Period: 86_400_000}
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	image := shardOf(bucket.New([]bucket.Limit{perDay, perSecond}, 0, 1, noon))
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

// Of two shards with four and a half tokens each, one request can have eight, so a denial reports
// eight remaining, not nine. A single shard reports its debt.
func TestDenialsShowWhatOneRequestCanHave(t *testing.T) {
	for _, c := range []struct {
		tokens []int64 // millitokens
		want   int64
	}{{[]int64{4500, 4500}, 8}, {[]int64{4500, -3000}, 1}, {[]int64{4500}, 4}, {[]int64{-3000}, -3}} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		for shard, milli := range c.tokens {
			image := imageOf(shard, len(c.tokens), 0)
			image.State.Slots[image.State.Index("rps")].Tokens = milli
			b.See(image, noon, Unsent)
		}
		d := b.Decide(asks(10, perSecond), &Attempt{}, clock(noon))
		if d.Do != Deny || d.Denial.Levels[0].Remaining != c.want {
			t.Errorf("%v: %+v, %+v, want %d", c.tokens, d.Choice, d.Denial.Levels, c.want)
		}
		if l := b.Levels(asks(0, perSecond), noon)[0]; l.Remaining != c.want {
			t.Errorf("%v: %+v are reported without a denial, want %d", c.tokens, l, c.want)
		}
	}
}

// A denial starts the repairs that it finds necessary; a grant does not: here shard 1 of two is
// missing.
func TestDenialsMend(t *testing.T) {
	for cost, mends := range map[int64]bool{1: false, 4: true, 11: true} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		b.See(imageOf(0, 2, 3), noon, Unsent)
		b.Missing(noon, 1)
		d := b.Decide(asks(cost, perSecond), &Attempt{}, clock(noon))
		if (d.Mend != nil) != mends || (d.Do == Deny || d.Do == Never) != mends {
			t.Errorf("a cost of %d: %+v, mends %t", cost, d.Choice, d.Mend != nil)
		}
	}
}

// Pending merges of a bucket do not affect a denial that the image shows.
func TestADenialIsNoMending(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	b.See(imageOf(1, 2, 0), noon, Unsent)
	b.See(imageOf(0, 1, 4), noon, Unsent)
	d := b.Decide(asks(7, perSecond), &Attempt{}, clock(noon))
	if d.Do != Deny || d.Denial.After != 3000 || d.Denial.Estimated || d.Mend == nil {
		t.Errorf("%+v, %+v, mends %v", d.Choice, d.Denial, d.Mend != nil)
	}
}

// A denial by slots gives a wait of at most a second, as an estimate, unless another limit takes
// longer: then that limit's.
func TestDenialsBySlots(t *testing.T) {
	fly := bucket.Limit{Name: "fly", Capacity: 2000, Period: 30_000, InFlight: true}
	for _, c := range []struct {
		level int64 // of ten, of which five are wanted
		limit string
		after int64
	}{{5000, "fly", slotsAfter}, {4500, "fly", slotsAfter}, {4000, "fly", slotsAfter}, {1000, "rps", 4000}} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		image := shardOf(bucket.New([]bucket.Limit{fly, perSecond}, 0, 1, noon))
		image.State.Slots[image.State.Index("rps")].Tokens = c.level
		i := image.State.Index("fly")
		image.State.Slots[i] = image.State.Emptied().Slots[i]
		b.See(image, noon, Unsent)
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{fly, perSecond}, 1000, 5000)
		d := b.Decide(w, &Attempt{}, clock(noon))
		if d.Do != Deny || d.Denial.Limit != c.limit || d.Denial.After != c.after || !d.Denial.Estimated {
			t.Errorf("with a level of %d: %+v, %+v", c.level, d.Choice, d.Denial)
		}
	}
	b := seenAs(perSecond, 1)
	if d := b.Decide(asks(5, perSecond), &Attempt{}, clock(noon)); d.Denial.After != 4000 || d.Denial.Estimated {
		t.Errorf("without slots: %+v", d.Denial)
	}
	image := shardOf(bucket.New([]bucket.Limit{fly, perSecond}, 0, 1, noon))
	image.State.Slots[image.State.Index("rps")].Tokens = 1000
	b = NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.See(image, noon, Unsent)
	w := asks(0)
	w.Costs = table.Costs([]bucket.Limit{fly, perSecond}, 1000, 5000)
	free := b.Decide(w, &Attempt{}, clock(noon)).Denial
	if free.Limit != "rps" || free.After != 4000 || free.Estimated || free.Levels[0].After != 0 {
		t.Errorf("with slots that are free: %+v", free)
	}
}

// If others are faster each time, the denial lasts for the refill time of the costs; for limits
// that do not refill, as long as an image denies; and at most that long if the reason was not a
// lack of tokens, or if several shards have them. The denial names a limit with a cost.
func TestGivingUp(t *testing.T) {
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	other := quota
	other.Name = "other"
	soft := bucket.Limit{Name: "s", Capacity: 10_000, Amount: 1, Period: 1000, Soft: true}
	slow := bucket.Limit{Name: "slow", Capacity: 10_000, Amount: 500, Period: 1000}
	for _, c := range []struct {
		limits []bucket.Limit
		costs  []int64
		limit  string
		after  int64
	}{
		{[]bucket.Limit{quota}, []int64{2000}, "q", 60_000},
		{[]bucket.Limit{quota, perSecond, soft}, []int64{2000, 2000, 2000}, "rps", 2000},
		{[]bucket.Limit{perSecond, slow}, []int64{2000, 2000}, "slow", 4000},
		{[]bucket.Limit{perSecond, slow}, []int64{0, 2000}, "slow", 4000},
		{[]bucket.Limit{perSecond, slow}, []int64{2000, 0}, "rps", 2000},
		{[]bucket.Limit{quota, perSecond}, []int64{2000, 0}, "q", 60_000},
		{[]bucket.Limit{other, quota}, []int64{0, 2000}, "q", 60_000},
		{[]bucket.Limit{soft, quota}, []int64{2000, 2000}, "q", 60_000},
		{[]bucket.Limit{soft, slow}, []int64{2000, 0}, "slow", 60_000}, // its debt denies
	} {
		k, refilled := factsOf(1), c.after
		if c.after == 60_000 { // as long as an image denies
			refilled = 1500
		}
		for _, g := range []struct {
			lost          bool
			did           Action
			denies, after int64 // ms
		}{
			{true, Take, 60_000, c.after}, {true, Take, 1500, refilled}, {true, Several, 1500, 1500}, {false, Take, 1500, 1500},
		} {
			k.DenyFor = g.denies
			d := decider{facts: k, now: noon, attempt: &Attempt{Lost: g.lost}}
			d.want.Costs = table.Costs(c.limits, c.costs...)
			got := d.deny(d.giveUp(Choice{Do: g.did})).c
			if got.Do != Deny || !got.guess || got.Limit != c.limit || got.at != noon+g.after {
				t.Errorf("%v of %v, %+v: %+v, want %s", c.costs, c.limits, g, got, c.limit)
			}
		}
	}
}

// A denial reports when a quota is whole again: the latest edge of its shards.
func TestDenialsShowTheLatestEdge(t *testing.T) {
	const edge = 1_700_006_400_000
	quota := bucket.Limit{Name: "q", Capacity: 5000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	image := shardOf(bucket.New([]bucket.Limit{quota, perSecond}, 0, 1, edge-9000))
	image.State.Slots[image.State.Index("q")].Tokens = 0
	b.See(image, edge-9000, Unsent)
	d := b.Decide(asks(1, quota, perSecond), &Attempt{}, clock(edge-8000))
	if l := d.Denial.Levels; d.Do != Deny || l[0].Edge != 8000+bucket.EdgeMargin || l[1].Edge != 0 ||
		d.Denial.After != 8000+bucket.EdgeMargin {
		t.Errorf("%+v, %+v", d.Choice, d.Denial)
	}
}

// A denial lasts at least a millisecond, and its limit needs exactly as long as the denial lasts,
// whatever its level suggests.
func TestADenialAndItsLimitLastAsLong(t *testing.T) {
	for _, c := range []struct{ at, now, after int64 }{
		{noon + 7000, noon, 7000}, {noon + 7000, noon + 6000, 1000}, {noon, noon, 1}, {noon - 5, noon, 1},
	} {
		k := factsOf(1)
		k.see(imageOf(0, 1, 0), noon, Unsent, nil)
		d := decider{facts: k, now: noon, want: asks(1, perSecond), attempt: &Attempt{}}
		got := d.deny(Choice{Do: Deny, Limit: "rps", at: c.at, guess: true}).explain(k, c.now)
		if got.After != c.after || got.Levels[0].After != c.after || !got.Estimated {
			t.Errorf("until %d, at %d: %+v, want %d ms", c.at-noon, c.now-noon, got, c.after)
		}
	}
}

// A denial reports the levels of all shards together, minus costs under way, and the wait for each
// limit. It holds until the first image to expire is due for a look.
func TestDenialsShowAllShardsTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	for n := range 3000 {
		d := anyBucket(r)
		limit := d.want.Costs[r.IntN(4)].Limit.Name
		end := d.now + 1 + r.Int64N(3000)
		denied := d.deny(Choice{Do: Deny, Limit: limit, at: end})
		until, later := []int64{end}, d.now+r.Int64N(300)
		for _, s := range d.seenOf() {
			until = append(until, min(max(s.at, d.lookedAt), d.now)+d.DenyFor)
		}
		got, unseen := denied.explain(d.facts, later), len(d.seenOf()) < d.count
		if denied.until != slices.Min(until) || got.Limit != limit || got.After != max(end-later, 1) ||
			got.Estimated != unseen {
			t.Fatalf("bucket %d, until %d of %v at %d: %+v", n, denied.until, until, later, got)
		}
		levels := d.levels(d.want.Costs, later, false)
		for i, l := range got.Levels {
			c, want := d.want.Costs[i], levels[i]
			want.Estimated, want.Milli = unseen, l.Milli
			if unseen = unseen || len(d.seenOf()) == 0; !unseen {
				want.Milli = levels[i].Milli - sum(d.naively(c.Limit).underWay)
			}
			want.Remaining = min(want.Remaining, bucket.WholeAbove(l.Milli, l.Floor))
			need := c.Milli
			if need > 0 {
				need += l.Floor
			}
			switch {
			case c.Limit.Name == limit:
				if want.After = got.After; c.Milli > 0 && !c.Limit.Soft { // it does not cover the denied costs
					want.Remaining = min(want.Remaining, c.Milli/bucket.Milli-1)
				}
			case l.Milli >= need || c.Limit.Soft:
			case c.Limit.Reset != "":
				want.After = l.Edge
			default:
				want.After = (max(0, need-l.Milli)*c.Limit.Period - l.Rest + c.Limit.Amount - 1) / c.Limit.Amount
			}
			if l != want {
				t.Fatalf("bucket %d: %+v, want %+v", n, l, want)
			}
		}
	}
}

// A denial by limits that are not yet stored stores them first, on the denying shard, or if none
// can ever cover the costs, on the first one with other limits.
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

// A request that has waited too often for a bucket whose shard 0 was never seen is denied.
func TestDeniedWithoutShard0(t *testing.T) {
	b, w := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), asks(1, perSecond)
	b.See(imageOf(1, 2, 0), noon, Unsent)
	w.Ahead = 2000
	d := b.Decide(w, &Attempt{Trips: MaxTrips, Lost: true}, clock(noon))
	if d.Do != Deny || d.Denial.After != 1000 || !d.Denial.Estimated || d.Mend != nil {
		t.Errorf("%+v, %+v, mends %v", d.Choice, d.Denial, d.Mend != nil)
	}
}

// A request that must wait for merging shards is denied for a second, or two round trips for each
// of them.
func TestMergingFollowsTheRoundTrip(t *testing.T) {
	for trip, after := range map[float64]int64{0: 1000, 4: 1000, 150: 2400} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		for i := range 8 {
			b.See(imageOf(i, 8, 1), noon, Unsent)
		}
		now := func() Now { return Now{Ms: noon, Trip: trip} }
		d := b.Decide(asks(10, perSecond), &Attempt{}, now) // of shares of 1.25 that are 8 whole tokens
		if d.Do != Deny || d.Mend == nil || d.Denial.After != after || !d.Denial.Estimated {
			t.Errorf("with %v ms a call: %+v, %+v, want %d ms", trip, d.Choice, d.Denial, after)
		}
	}
}

// If a request is outrun and no time of refill is known, it is denied as long as an image denies,
// at least a millisecond.
func TestOutrunWithoutACost(t *testing.T) {
	for denyFor, want := range map[int64]int64{0: 1, 1: 1, 2: 2, 60_000: 60_000} {
		k := factsOf(1)
		k.Settings = &Settings{DenyFor: denyFor, MaxShards: 32}
		k.see(imageOf(0, 1, 0), noon, Unsent, nil)
		d := decider{facts: k, now: noon, want: asks(0, perSecond), attempt: &Attempt{Lost: true}}
		if got := d.giveUp(Choice{Do: Take}); got.at != noon+want || got.Do != Deny {
			t.Errorf("DenyFor %d: denied for %d ms, want %d", denyFor, got.at-noon, want)
		}
	}
}
