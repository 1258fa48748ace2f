package shard_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// fullBucket returns a world with a full bucket of one shard.
func fullBucket(t *testing.T, capacity int64) *world {
	w := newWorld(t, 0, []bucket.Limit{{Name: "rpm", Capacity: capacity, Amount: capacity, Period: 60_000}})
	put, _ := table.Create(table.NewBucket{
		Namespace: namespace, Entity: entity, Resource: resource, Costs: table.Costs(w.limits), Now: w.now,
	})
	w.call("create", nil, nothing, false, put)
	return w
}

// burst takes everything that all shards hold at this instant.
func (w *world) burst() {
	for _, s := range w.shards() {
		for i, sl := range s.Slots {
			if sl.Name == bucket.WCU {
				continue
			}
			held := s.At(w.now).Slots[i].Tokens
			b, _ := w.image(s.Shard)
			costs := []table.Cost{{Limit: sl.Limit, Milli: held}}
			plan := table.Charge{Image: b, Costs: costs, Now: w.now}.Plan()
			if _, _, err := w.call("burst", costs, nothing, false, plan.Update); err != nil || !plan.Verdict.Granted {
				w.violated("burst of %d on shard %d was not granted", held, s.Shard)
			}
		}
	}
}

// The Python client raises the count of shard 0 when it is hot and splits
// nothing. Shard 0 then holds twice its share, once per bump twice more. Opening
// the missing shards must not let them earn that again.
func TestCountBumpedOnFullBucketMintsNothing(t *testing.T) {
	for _, bumps := range []int{1, 2, 3} {
		w := fullBucket(t, 17_000)
		w.foreign = true
		for range bumps {
			bump(w)
		}
		w.rest()
		w.now += 3_600_000
		w.burst()
		for _, x := range w.worst() {
			t.Logf("%d bumps of a full bucket: worst excess %s", bumps, x)
			if x.Milli.Sign() > 0 {
				t.Errorf("%d bumps: worst excess %s, want none", bumps, x)
			}
		}
		w.foreign = false
		w.sharesAddUp("at rest")
	}
}

// race lets the plans take a step each, in turn, for so many rounds, and in one of
// some rounds somebody who spends a token of shard 0.
func race(w *world, plans []*shard.Plan, rounds, spends int) {
	for round := range rounds {
		for _, p := range plans {
			a := newActor(w, round)
			a.plan = p
			a.step()
			a.land(false)
		}
		if b, _ := w.image(0); round%spends == 0 && b.State.Slots[0].Tokens >= 1000 {
			costs := table.Costs(w.limits, 1000)
			w.call("spend", costs, nothing, false, table.Charge{Image: b, Costs: costs, Now: w.now}.Plan().Update)
		}
		w.now += 7
	}
}

// While opening is under way shard 0 is spent from and refilled, and several
// actors open from images of different age.
func TestOpeningRacesWithSpending(t *testing.T) {
	w := fullBucket(t, 16_000)
	w.foreign = true
	stale, _ := w.image(0)
	for range 3 {
		bump(w)
	}
	bumped, _ := w.image(0)
	plans := []*shard.Plan{shard.Propagate(bumped), shard.Propagate(bumped), shard.Propagate(stale)}
	race(w, plans, 60, 3)
	if !w.atCount(8) {
		t.Fatalf("shards after all plans ended: %v", w.shards())
	}
	w.now += 3_600_000
	w.burst()
	if x := w.worst()["rpm"]; x.Milli.Sign() > 0 {
		t.Errorf("worst excess %s, want none", x)
	}
}

// A sibling that foreign hands have put there has tokens of its own. The shard
// takes the doubled count and drops what it may no longer hold.
func TestRecountDropsWhatTheSiblingHolds(t *testing.T) {
	for _, spent := range []int64{0, 3_000, 9_000, 17_000} {
		w := fullBucket(t, 17_000)
		b, _ := w.image(0)
		if spent > 0 {
			costs := table.Costs(w.limits, spent)
			w.call("spend", costs, nothing, false, table.Charge{Image: b, Costs: costs, Now: w.now}.Plan().Update)
		}
		_, sibling := b.State.Split()
		foreign := b
		foreign.State = sibling
		w.db.Store(foreign.Item()) // full
		w.decoded = nil
		w.exact = false // what it holds came from nowhere; it counts from here on

		a := newActor(w, 0)
		a.plan = shard.Double(b) // from the image before the spending
		for n := 0; a.step(); n++ {
			if n > 10 {
				t.Fatalf("spent %d: the plan does not end", spent)
			}
			a.land(false)
		}
		w.sharesAddUp("after the recount")
		held := w.held()["rpm"]
		if held.Cmp(buckettest.Milli(17_000)) > 0 {
			t.Errorf("spent %d: the shards hold %s millitokens, capacity is 17000", spent, held.FloatString(3))
		}
		if b, _ = w.image(0); b.State.Slots[0].Tokens < 0 {
			t.Errorf("spent %d: shard 0 is in debt: %s", spent, b.State)
		}
	}
}

// Counts that are no power of two come from nowhere, but must not mint.
func TestOddCountsMintNothing(t *testing.T) {
	for _, n := range []int{3, 5, 6, 7} {
		w := fullBucket(t, 64_000)
		w.foreign = true
		w.call("foreign count", nil, overflow, false,
			item.Update{Key: bucketKey(0), Set: []item.Attr{{Name: "shard_count", Value: item.N(int64(n))}}})
		zero, _ := w.image(0)
		a := newActor(w, 0)
		a.plan = shard.Propagate(zero)
		for steps := 0; a.step(); steps++ {
			if steps > 100 {
				t.Fatalf("count %d: the plan does not end", n)
			}
			a.land(false)
		}
		w.now += 3_600_000
		w.burst()
		if x := w.worst()["rpm"]; x.Milli.Sign() > 0 {
			t.Errorf("count %d: worst excess %s, want none", n, x)
		}
	}
}

// A bucket that is gone stays gone: plans made for it end and create nothing.
func TestShard0DeletedPlansEnd(t *testing.T) {
	w := fullBucket(t, 16_000)
	b, _ := w.image(0)
	w.db.Delete(bucketKey(0))
	w.decoded = nil
	for _, p := range []*shard.Plan{shard.Double(b), shard.Propagate(b)} {
		a := newActor(w, 0)
		a.plan = p
		for steps := 0; a.step(); steps++ {
			if steps > 20 {
				t.Fatal("the plan does not end")
			}
			a.land(false)
		}
	}
	if left := w.shards(); len(left) != 0 {
		t.Errorf("a plan for a deleted bucket left %v", left)
	}
}

// A count beyond what a token can be divided by is taken back whole while others
// open shards for it and spend. What shard 0 has held all along it may keep; nobody
// gets a token more.
func TestTakingBackACountRacesWithOpening(t *testing.T) {
	for bumps := range 7 {
		w := fullBucket(t, 10_000)
		w.foreign = true
		stale, _ := w.image(0)
		var plans []*shard.Plan
		for range bumps {
			bump(w)
			b, _ := w.image(0)
			plans = append(plans, shard.Propagate(b))
		}
		zero, _ := w.image(0)
		plans = append(plans, shard.Shrink(zero, zero.State.Fitting()), shard.Shrink(zero, 1), shard.Propagate(stale))
		race(w, plans, 80, 5)
		w.now += 3_600_000
		w.burst()
		if x := w.worst()["rpm"]; x.Milli.Sign() > 0 {
			t.Errorf("%d bumps: worst excess %s, want none", bumps, x)
		}
	}
}

// A batch that comes again after the bucket has merged shows a count that shard 0 no
// longer has. No shard is split for it.
func TestOldCountSplitsNothing(t *testing.T) {
	w := fullBucket(t, 16_000)
	play := func(p *shard.Plan) {
		a := newActor(w, 0)
		a.plan = p
		for steps := 0; a.step(); steps++ {
			if steps > 100 {
				t.Fatal("the plan does not end")
			}
			a.land(false)
		}
		w.now += 1000
	}
	for range 3 {
		zero, _ := w.image(0)
		play(shard.Double(zero))
		zero, _ = w.image(0)
		play(shard.Propagate(zero))
	}
	eight, _ := w.image(0)
	play(shard.Shrink(eight, 4))
	four, _ := w.image(0)
	var others []table.Shard
	for k := 1; k < 8; k++ {
		if b, ok := w.image(k); ok {
			others = append(others, b)
		}
	}
	play(shard.Propagate(four, others...))
	if !w.atCount(4) {
		t.Fatalf("not merged: %v", w.shards())
	}
	play(shard.Propagate(eight, others...))
	three, _ := w.image(3)
	play(shard.Follow(three, 8))
	if !w.atCount(4) {
		t.Errorf("split for a count of long ago: %v", w.shards())
	}
}
