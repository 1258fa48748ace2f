package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// TestExamplesOfTheCharge runs the examples of charge.go with their numbers, in tokens and seconds.
func TestExamplesOfTheCharge(t *testing.T) {
	const s = 1_000
	ten := bucket.Limit{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}
	hundred := bucket.Limit{Name: "rpm", Capacity: 100 * s, Amount: s, Period: s}
	image := func(l bucket.Limit, tk, tc, rf int64) Shard {
		state := bucket.New([]bucket.Limit{l}, 0, 1, rf*s)
		sl := &state.Slots[state.Index("rpm")]
		sl.Tokens, sl.Used = tk*s, tc*s
		return Shard{Namespace: "ns", Entity: "e", Resource: "r", State: state, Generation: 1}
	}
	costs := func(n int64) []Cost { return Costs([]bucket.Limit{ten}, n*s) }
	seen := image(ten, 4, 100, 0)
	full := image(ten, 10, 100, 2)
	for _, c := range []struct {
		name   string
		charge Charge
		stored Shard // when the charge arrives
		level  int64 // afterwards; -99: refused
	}{
		{"cost 2, others took 3", Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, 1, 103, 0), 1},
		{"cost 4, others took 3", Charge{Image: seen, Costs: costs(4), Now: 2 * s}, image(ten, 1, 103, 0), -99},
		{"cost 2, others took 4", Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, 0, 104, 0), 0},
		{"cost 2, others took 5", Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, -1, 105, 0), -99},
		{"a refill, others took 6", Charge{Image: seen, Now: 2 * s}, image(ten, -2, 106, 0), 0},
		{"a refill, others took 7", Charge{Image: seen, Now: 2 * s}, image(ten, -3, 107, 0), -99},
		{"cost 9 by force", Charge{Image: seen, Costs: costs(9), Now: 2 * s, Force: true}, seen, -3},
		{"cost 9 by force, others took 3", Charge{Image: seen, Costs: costs(9), Now: 2 * s, Force: true},
			image(ten, 1, 103, 0), -6},
		{"slack of 20 %, others took 2", Charge{Image: full, Costs: costs(1), Now: 4 * s, Slack: 20},
			image(ten, 8, 102, 2), 7},
		{"slack of 20 %, others took 3", Charge{Image: full, Costs: costs(1), Now: 4 * s, Slack: 20},
			image(ten, 7, 103, 2), -99},
		{"room of 20 %, cost 5", Charge{Image: image(hundred, 100, 0, 0),
			Costs: Costs([]bucket.Limit{hundred}, 5*s), Now: s, Room: 20},
			image(hundred, 100, 0, 0), 80},
		{"a refill that was overtaken", Charge{Image: image(ten, 10, 90, 90), Now: 95 * s},
			image(ten, 0, 100, 100), -99},
		{"a refill of the same instant", Charge{Image: image(ten, 10, 90, 90), Now: 95 * s}, image(ten, 0, 100, 95), 0},
	} {
		if after, held := written(t, c.stored, c.charge); !held {
			check.Equal(t, c.level, -99, "%s: refused", c.name)
		} else {
			check.Equal(t, slotNamed(after, "rpm").Tokens, c.level*s, c.name)
		}
	}
}

// A soft limit denies nothing, whatever others took. Only if it is full and has a slack, a write is
// refused that would lose more tokens than the slack: of 100 tokens with a slack of 20 %, at most
// 20. A shard of two is full at its share.
func TestFullSoftLimitsLoseAtMostTheirSlack(t *testing.T) {
	const now, s = 1_700_000_000_000, 1_000
	for _, c := range []struct {
		slack, level, others int64
		want                 bool
	}{
		{0, 100, 101, true}, {100, 100, 101, true}, {20, 100, 20, true}, {20, 100, 21, false}, {1, 100, 1, true},
		{1, 100, 2, false}, {20, 50, 21, true}, {20, -50, 21, true}, {99, 100, 97, true}, {99, 100, 100, false},
	} {
		for _, shards := range []int{1, 2} {
			soft := bucket.Limit{Name: "rpm", Capacity: int64(shards) * 100 * s, Amount: s, Period: s, Soft: true}
			b := imageOf(1, []bucket.Limit{soft}, 0, shards, now)
			b.State.Slots[0].Tokens = c.level * s
			plan := Charge{Image: b, Costs: Costs([]bucket.Limit{soft}, 5*s), Now: now, Slack: c.slack}.Plan()
			b.State.Slots = []bucket.Slot{b.State.Slots[0], b.State.Slots[1]}
			b.State.Slots[0].Tokens -= c.others * s
			b.State.Slots[0].Used += c.others * s
			check.Equal(t, plan.Verdict.Granted, true, "%+v, of %d shards: granted", c, shards)
			check.Equal(t, holds(t, plan.Update, b.Item()), c.want, "%+v, of %d shards", c, shards)
		}
	}
}

// A grant counts from now, even if the item's clock is ahead of ours. A clock far ahead is
// repaired, which begins a generation. So does an item without a clock, or without a shard count,
// whose capacity is unknown. A clock within the allowed difference is kept.
func TestChargesOfOddItems(t *testing.T) {
	const now, s = 1_700_000_000_000, 1_000
	ten := []bucket.Limit{{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}}
	for _, c := range []struct {
		attr   string
		v      item.Value // nil: the attribute is missing
		rf     int64      // after the charge
		begins bool
	}{
		{"rf", item.N(now), now, false}, {"rf", item.N(now + 500), now + 500, false},
		{"rf", item.N(now + bucket.MaxSkew), now + bucket.MaxSkew, false},
		{"rf", item.N(now + bucket.MaxSkew + 1), now, true},
		{"rf", nil, now, true}, {AttrShardCount, nil, now, true},
	} {
		b := imageOf(1, ten, 0, 1, now)
		b.State.Slots[0].Tokens = 4 * s
		it := b.Item()
		if it[c.attr] = c.v; c.v == nil {
			delete(it, c.attr)
		}
		plan := Charge{Image: decode(t, it), Costs: Costs(ten, s), Now: now}.Plan()
		got := decode(t, applied(t, plan.Update, it))
		if !plan.Verdict.Granted || plan.Verdict.At != now || got.State.Slots[0].Tokens != 3*s || got.State.RF != c.rf ||
			got.State.NoClock || got.NoShardCount || got.State.Shards != 1 || got.Generation != 1 != c.begins {
			t.Errorf("%s is %v: %+v, %v, generation %d", c.attr, c.v, plan.Verdict, got.State, got.Generation)
		}
	}
}

// A waiting request may go into debt with its costs. Costs with a floor are taken only if they are
// covered.
func TestWaitingRequestsGoIntoDebt(t *testing.T) {
	const now, s = 1_700_000_000_000, 1_000
	ten := bucket.Limit{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}
	for _, c := range []struct {
		floor, others int64 // in percent, and tokens
		want          bool
	}{{0, 0, true}, {0, 9, true}, {40, 0, true}, {40, 1, true}, {40, 2, false}} {
		b := imageOf(1, []bucket.Limit{ten}, 0, 1, now)
		b.State.Slots[0].Tokens = 8 * s
		costs := []Cost{{Limit: ten, Milli: 3 * s, Floor: c.floor}}
		u := Charge{Image: b, Costs: costs, Now: now, Force: true, Owe: true}.Plan().Update
		b.State.Slots = []bucket.Slot{b.State.Slots[0], b.State.Slots[1]}
		b.State.Slots[0].Tokens -= c.others * s
		b.State.Slots[0].Used += c.others * s
		check.Equal(t, holds(t, u, b.Item()), c.want, "%+v", c)
	}
}

func TestPlansDoNotChangeTheirImage(t *testing.T) {
	const now, s = 1_700_000_000_000, 1_000
	ten := []bucket.Limit{{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}}
	wider := []bucket.Limit{{Name: "rpm", Capacity: 20 * s, Amount: s, Period: s}, newRate("tpm", s, s)}
	for name, c := range map[string]Charge{
		"a cost": {Costs: Costs(ten, s)}, "with room": {Costs: Costs(ten, s), Room: 50},
		"by force": {Costs: Costs(ten, 50*s), Force: true}, "a refill": {},
		"other limits": {Costs: Costs(wider, s, s)}, "gifts": {Gifts: map[string]bucket.Gift{"rpm": {Milli: s}}},
		"ahead": {Costs: Costs(ten, 2*s), Ahead: &Ahead{Life: 1000, Take: Costs(ten, s)}},
	} {
		b := imageOf(1, ten, 0, 1, now)
		before := b.Item()
		for _, at := range []int64{now, now + 500} {
			c.Image, c.Now = b, at
			c.Plan()
			if !item.EqualItems(b.Item(), before) {
				t.Errorf("%s: %s", name, b.State)
			}
		}
	}
}
