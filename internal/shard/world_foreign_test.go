package shard_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// bump doubles the count of shard 0 and nothing else, as the Python client does.
func (w *world) bump() {
	if b, _ := w.image(0); b.State.CanSplit(maxShards) {
		w.count(2 * b.State.Shards)
	}
}

func (w *world) count(n int) {
	w.t.Helper()
	w.foreign = true
	if _, _, err := w.call("foreign count", nil, false, item.Update{Key: bucketKey(0),
		Set: []item.Attr{{Name: "shard_count", Value: item.N(int64(n))}}}); err != nil {
		w.t.Fatal(err)
	}
}

// The Python client raises the count of a hot shard 0 without a split. Shard 0 then holds twice its
// share, and twice more with each further bump. Restored shards must not refill that difference.
func TestCountBumpedOnFullBucketMintsNothing(t *testing.T) {
	for _, bumps := range []int{1, 2, 3} {
		w := fullBucket(t, 17_000)
		for range bumps {
			w.bump()
		}
		w.rest()
		w.now += 3_600_000
		w.burst()
		w.foreign = false
		w.sharesAddUp("at rest")
	}
}

// race lets the plans take a step each, in turn, for some rounds. In one of several rounds a token
// of shard 0 is spent.
func race(w *world, plans []*shard.Plan, rounds, spends int) {
	for round := range rounds {
		for _, p := range plans {
			w.step(p, false, sound)
		}
		if b, _ := w.image(0); round%spends == 0 {
			w.charge(b, table.Costs(w.limits, 1000), sound)
		}
		w.now += 7
	}
}

// While shards are restored, shard 0 is charged and refilled, and several processes restore from
// images of different age.
func TestRestoringRacesWithSpending(t *testing.T) {
	w := fullBucket(t, 16_000)
	stale, _ := w.image(0)
	for range 3 {
		w.bump()
	}
	bumped, _ := w.image(0)
	plans := []*shard.Plan{shard.Propagate(bumped), shard.Propagate(bumped), shard.Propagate(stale)}
	race(w, plans, 60, 3)
	if !w.atCount(8) {
		t.Fatalf("shards after all plans ended: %v", w.shards())
	}
	w.now += 3_600_000
	w.burst()
}

// A sibling created by another client has its own tokens. The shard takes the doubled count, and
// drops what exceeds its new share.
func TestRecountsDropTokensAboveTheShare(t *testing.T) {
	for _, spent := range []int64{0, 3_000, 9_000, 17_000} {
		w := fullBucket(t, 17_000)
		b, _ := w.image(0)
		w.charge(b, table.Costs(w.limits, spent), sound)
		_, sibling := b.State.Split()
		foreign := b
		foreign.State = sibling
		w.db.Store(foreign.Item()) // full
		w.foreign = true           // until the recount
		w.run(shard.Double(b))     // from the image before the charge
		w.foreign = false
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

// A count that is not a power of two must not mint.
func TestOddCountsMintNothing(t *testing.T) {
	for _, n := range []int{3, 5, 6, 7} {
		w := fullBucket(t, 64_000)
		w.count(n)
		zero, _ := w.image(0)
		w.run(shard.Propagate(zero))
		w.now += 3_600_000
		w.burst()
	}
}

// A deleted bucket stays deleted: plans made for it end, and create nothing.
func TestShard0DeletedPlansEnd(t *testing.T) {
	w := fullBucket(t, 16_000)
	b, _ := w.image(0)
	w.db.Delete(bucketKey(0))
	w.foreign = true
	w.run(shard.Double(b))
	w.run(shard.Propagate(b))
	if left := w.shards(); len(left) != 0 {
		t.Errorf("a plan for a deleted bucket left %v", left)
	}
}

// A count that leaves shares without a token is reduced while others restore shards for it and
// spend. Shard 0 may keep what it held all along. No token is added.
func TestReducingACountRacesWithRestoring(t *testing.T) {
	for bumps := range 7 {
		w := fullBucket(t, 10_000)
		stale, _ := w.image(0)
		var plans []*shard.Plan
		for range bumps {
			w.bump()
			b, _ := w.image(0)
			plans = append(plans, shard.Propagate(b))
		}
		zero, _ := w.image(0)
		plans = append(plans, shard.Shrink(zero, zero.State.Fitting()), shard.Shrink(zero, 1), shard.Propagate(stale))
		race(w, plans, 80, 5)
		w.now += 3_600_000
		w.burst()
	}
}

// A batch that is repeated after the bucket has merged shows an old count of shard 0. No shard is
// split for it.
func TestOldCountSplitsNothing(t *testing.T) {
	w := fullBucket(t, 16_000)
	play := func(p *shard.Plan) { w.run(p); w.now += 1000 }
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
		t.Errorf("split for an old count: %v", w.shards())
	}
}
