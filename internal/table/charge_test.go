package table_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestExamplesOfTheCharge runs the examples of charge.go with their numbers, in tokens and seconds.
func TestExamplesOfTheCharge(t *testing.T) {
	const s = 1_000
	ten := bucket.Limit{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}
	hundred := bucket.Limit{Name: "rpm", Capacity: 100 * s, Amount: s, Period: s}
	image := func(l bucket.Limit, tk, tc, rf int64) table.Shard {
		state := bucket.New([]bucket.Limit{l}, 0, 1, rf*s)
		sl := &state.Slots[state.Index("rpm")]
		sl.Tokens, sl.Used = tk*s, tc*s
		return table.Shard{Namespace: "ns", Entity: "e", Resource: "r", State: state, Generation: 1}
	}
	costs := func(n int64) []table.Cost { return table.Costs([]bucket.Limit{ten}, n*s) }
	seen := image(ten, 4, 100, 0)
	full := image(ten, 10, 100, 2)
	for _, c := range []struct {
		name   string
		charge table.Charge
		stored table.Shard // when the charge arrives
		level  int64       // afterwards; -99: refused
	}{
		{"cost 2, others took 3", table.Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, 1, 103, 0), 1},
		{"cost 4, others took 3", table.Charge{Image: seen, Costs: costs(4), Now: 2 * s}, image(ten, 1, 103, 0), -99},
		{"cost 2, others took 4", table.Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, 0, 104, 0), 0},
		{"cost 2, others took 5", table.Charge{Image: seen, Costs: costs(2), Now: 2 * s}, image(ten, -1, 105, 0), -99},
		{"a refill, others took 6", table.Charge{Image: seen, Now: 2 * s}, image(ten, -2, 106, 0), 0},
		{"a refill, others took 7", table.Charge{Image: seen, Now: 2 * s}, image(ten, -3, 107, 0), -99},
		{"cost 9 by force", table.Charge{Image: seen, Costs: costs(9), Now: 2 * s, Force: true}, seen, -3},
		{"cost 9 by force, others took 3", table.Charge{Image: seen, Costs: costs(9), Now: 2 * s, Force: true},
			image(ten, 1, 103, 0), -6},
		{"slack of 20 %, others took 2", table.Charge{Image: full, Costs: costs(1), Now: 4 * s, Slack: 20},
			image(ten, 8, 102, 2), 7},
		{"slack of 20 %, others took 3", table.Charge{Image: full, Costs: costs(1), Now: 4 * s, Slack: 20},
			image(ten, 7, 103, 2), -99},
		{"room of 20 %, cost 5", table.Charge{Image: image(hundred, 100, 0, 0),
			Costs: table.Costs([]bucket.Limit{hundred}, 5*s), Now: s, Room: 20},
			image(hundred, 100, 0, 0), 80},
		{"a refill that was overtaken", table.Charge{Image: image(ten, 10, 90, 90), Now: 95 * s},
			image(ten, 0, 100, 100), -99},
		{"a refill of the same instant", table.Charge{Image: image(ten, 10, 90, 90), Now: 95 * s},
			image(ten, 0, 100, 95), 0},
	} {
		after, held, err := c.charge.Plan().Update.Apply(c.stored.Item())
		check.Must(t, err, c.name)
		if !held {
			check.Equal(t, c.level, -99, "%s: refused", c.name)
			continue
		}
		if !item.Equal(after["b_rpm_tk"], item.N(c.level*s)) {
			t.Errorf("%s: level %v, want %d tokens", c.name, after["b_rpm_tk"], c.level)
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
			plan := table.Charge{Image: b, Costs: table.Costs([]bucket.Limit{soft}, 5*s), Now: now, Slack: c.slack}.Plan()
			b.State.Slots = []bucket.Slot{b.State.Slots[0], b.State.Slots[1]}
			b.State.Slots[0].Tokens -= c.others * s
			b.State.Slots[0].Used += c.others * s
			if _, held, err := plan.Update.Apply(b.Item()); err != nil || held != c.want || !plan.Verdict.Granted {
				t.Errorf("%+v, of %d shards: held %v, %v", c, shards, held, err)
			}
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
		{"rf", nil, now, true}, {table.AttrShardCount, nil, now, true},
	} {
		b := imageOf(1, ten, 0, 1, now)
		b.State.Slots[0].Tokens = 4 * s
		it := b.Item()
		if it[c.attr] = c.v; c.v == nil {
			delete(it, c.attr)
		}
		plan := table.Charge{Image: decode(t, it), Costs: table.Costs(ten, s), Now: now}.Plan()
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
		costs := []table.Cost{{Limit: ten, Milli: 3 * s, Floor: c.floor}}
		u := table.Charge{Image: b, Costs: costs, Now: now, Force: true, Owe: true}.Plan().Update
		b.State.Slots = []bucket.Slot{b.State.Slots[0], b.State.Slots[1]}
		b.State.Slots[0].Tokens -= c.others * s
		b.State.Slots[0].Used += c.others * s
		if _, held, err := u.Apply(b.Item()); err != nil || held != c.want {
			t.Errorf("%+v: held %v, %v", c, held, err)
		}
	}
}

// Planning a charge does not change its image.
func TestPlansDoNotChangeTheirImage(t *testing.T) {
	const now, s = 1_700_000_000_000, 1_000
	ten := []bucket.Limit{{Name: "rpm", Capacity: 10 * s, Amount: s, Period: s}}
	wider := []bucket.Limit{{Name: "rpm", Capacity: 20 * s, Amount: s, Period: s},
		{Name: "tpm", Capacity: s, Amount: s, Period: s}}
	for name, c := range map[string]table.Charge{
		"a cost": {Costs: table.Costs(ten, s)}, "with room": {Costs: table.Costs(ten, s), Room: 50},
		"by force": {Costs: table.Costs(ten, 50*s), Force: true}, "a refill": {},
		"other limits": {Costs: table.Costs(wider, s, s)}, "gifts": {Gifts: map[string]bucket.Gift{"rpm": {Milli: s}}},
		"ahead": {Costs: table.Costs(ten, 2*s), Ahead: &table.Ahead{Life: 1000, Take: table.Costs(ten, s)}},
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
