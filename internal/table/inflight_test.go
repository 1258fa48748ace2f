package table

import (
	"maps"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const slotsEpoch = 30_000

func slotsLimit(name string, n int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: n * bucket.Milli, Period: slotsEpoch, InFlight: true}
}

// slotsBucket is a bucket with 10 slots and rates. Some slots were taken in the current epoch and
// some in the one before.
func slotsBucket(now, before int64, limits ...bucket.Limit) Shard {
	_, b := Create(NewBucket{Namespace: "ns", Entity: "key-1", Resource: "gpt", Now: sampleNow, Lifetime: Expires,
		Costs: Costs(limits)})
	for i, sl := range b.State.Slots {
		if sl.InFlight {
			sl.Taken[bucket.EpochSlot(sl.Epoch())] = now * bucket.Milli
			sl.Taken[bucket.EpochSlot(sl.Epoch()-1)] = before * bucket.Milli
			b.State.Slots[i] = sl.Levelled(b.State)
		}
	}
	return b
}

// slotsWrites returns every kind of write of a bucket with slots.
func slotsWrites(t *testing.T, limits []bucket.Limit) []call {
	t.Helper()
	var calls []call
	b := slotsBucket(3, 2, limits...)
	costs := Costs(limits, slices.Repeat([]int64{bucket.Milli}, len(limits))...)
	charge := func(name string, c Charge, after int64) {
		t.Helper()
		c.Now = sampleNow + after
		plan := c.Plan()
		if !plan.Verdict.Granted && !c.Force {
			t.Errorf("%s: denied, %+v", name, plan.Verdict)
		}
		calls = append(calls, one("slots: "+name, plan.Update, c.Image.Item()))
	}
	charge("in the epoch of the image", Charge{Image: b, Costs: costs}, 7)
	charge("in the next epoch", Charge{Image: b, Costs: costs}, slotsEpoch)
	charge("when the dead are in the way", Charge{Image: b, Costs: costs}, 2*slotsEpoch)
	charge("without a slot", Charge{Image: b, Costs: Costs(limits)}, 7)
	charge("new to the item", Charge{Image: slotsBucket(0, 0, limits[len(limits)-1]), Costs: costs}, 7)
	changed := slices.Clone(costs)
	for i := range changed {
		changed[i].Limit.Capacity *= 2
	}
	charge("more slots", Charge{Image: b, Costs: changed}, 7)
	for i := range changed {
		if changed[i].Limit.InFlight {
			changed[i].Limit.Period /= 2
		}
	}
	charge("shorter epochs", Charge{Image: b, Costs: changed}, 7)
	kinds := slices.Clone(costs)
	for i := range kinds {
		if l := &kinds[i].Limit; l.InFlight {
			l.InFlight, l.Amount = false, l.Capacity
		} else {
			*l = slotsLimit(l.Name, l.Capacity/bucket.Milli)
		}
	}
	charge("of another kind", Charge{Image: b, Costs: kinds}, 7)
	astray := b
	astray.State.Slots = slices.Clone(b.State.Slots)
	var taken, back []Cost
	for i := range astray.State.Slots {
		if sl := &astray.State.Slots[i]; sl.InFlight {
			taken = append(taken, Cost{Limit: sl.Limit, Milli: bucket.Milli, End: sl.End})
			back = append(back, Cost{Limit: sl.Limit, Milli: -bucket.Milli, End: sl.End})
			sl.End = sl.EndOf(sl.Epoch() + 300)
		}
	}
	charge("in an epoch that no sound clock has begun", Charge{Image: astray, Costs: costs}, 7)
	charge("dropped", Charge{Image: slotsBucket(0, 0, limits...), Costs: changed[len(changed)-1:]}, 7)
	charge("given back by force", Charge{Image: b, Costs: back, Force: true}, 7)
	short := b
	short.TTL = sampleNow/1000 + 1
	cold := Add{Room: 50, Namespace: "ns", Entity: "key-1", Resource: "gpt", Shards: 1, Costs: costs, Now: sampleNow}
	other := b
	other.State.Shard = 1
	half := b
	half.State.Slots = slices.Clone(b.State.Slots)
	for i := range half.State.Slots {
		half.State.Slots[i].Tokens /= 2
	}
	return append(calls,
		one("slots: cold", cold.Plan(), half.Item()),
		one("slots: given back", Adjust(b.Key(), back), b.Item()),
		one("slots: moved", Renew(b.Key(), b.TTL, taken), b.Item()),
		one("slots: moved, and its expiry too", Renew(short.Key(), short.TTL, taken), short.Item()),
		call{"slots: split", Split(b, sampleNow+7), []item.Item{b.Item(), nil}},
		call{"slots: merge", Merge(b, other, 1, sampleNow+7), []item.Item{other.Item(), b.Item()}})
}

func TestWritesOfSlotsRenderAsTheirGolden(t *testing.T) {
	rendersAs(t, "writes-slots.txt", slotsWrites(t, []bucket.Limit{slotsLimit("fly", 10), sampleLimits[0]}))
}

// A bucket has the same slots when it is split: all of them stay on shard 0.
func TestSlotsStayOnShardZero(t *testing.T) {
	b := slotsBucket(3, 2, slotsLimit("fly", 10), sampleLimits[0])
	check.Equal(t, b.State.CanSplit(32), false, "a bucket with slots can be split")
	writes := Split(b, sampleNow)
	keep, moved := decode(t, applied(t, writes[0], b.Item())), decode(t, writes[1].(item.Put).Item)
	check.Equal(t, keep.State.Slots[0].Tokens, 5*bucket.Milli, "millislots of shard 0, of 5 free ones")
	check.Equal(t, moved.State.Slots[0].Tokens, 0, "millislots of shard 1")
	check.Equal(t, keep.State.Fitting(), 1, "shards that they fit")
	if v := moved.State.Decide([]int64{bucket.Milli, 0, 0}, sampleNow); v.Granted || v.At != bucket.Never {
		t.Errorf("shard 1 decides %+v about a slot", v)
	}
}

// If an item would expire before its moved slots count no more, its expiry is extended. An item
// that lives longer, or forever, is unchanged.
func TestMovedSlotsKeepTheirItem(t *testing.T) {
	const now = 1_800_000_010_000
	fly := bucket.Limit{Name: "fly", Capacity: 10_000, Period: 30_000, InFlight: true}
	put, b := create(now, Costs([]bucket.Limit{fly}, 1000))
	taken := Costs([]bucket.Limit{fly}, 1000)
	taken[0].End = slotNamed(b, "fly").End
	lost := (taken[0].End + 2*fly.Period) / 1000 // two epochs later
	for _, ttl := range []int64{0, 1, 2, lost, 1 << 40} {
		it := maps.Clone(put.Item)
		if delete(it, layout.AttrTTL); ttl > 0 {
			it[layout.AttrTTL] = item.N(ttl)
		}
		got := decode(t, applied(t, Renew(b.Key(), ttl, taken), it))
		if kept := ttl == 0 || ttl == 1<<40; kept && got.TTL != ttl || !kept && (got.TTL <= lost || got.TTL > lost+3600) {
			t.Errorf("until %d: it lives until %d, the slots until %d", ttl, got.TTL, lost)
		}
	}
}

// Slots moved to the next epoch keep their item as long as any of them may count. The longest epoch
// determines the time, whatever its position.
func TestTheLongestEpochKeepsTheItem(t *testing.T) {
	short, long := slotsLimit("fly", 10), slotsLimit("sail", 10)
	long.Period *= 4
	limits := []bucket.Limit{short, long}
	b := slotsBucket(3, 2, limits...)
	var want item.Value
	for range 2 {
		costs := Costs(limits, 1000, 1000)
		for i, l := range limits {
			costs[i].End = slotNamed(b, l.Name).End
		}
		it := b.Item()
		it[layout.AttrTTL] = item.N(1)
		ttl := applied(t, Renew(b.Key(), 1, costs), it)[layout.AttrTTL]
		if want != nil && !item.Equal(ttl, want) {
			t.Errorf("ttl %v, in the other order %v", ttl, want)
		}
		want = ttl
		slices.Reverse(limits)
	}
	end := long.EndOf(slotNamed(b, "sail").Epoch() + 2)
	if n, _, _ := item.Int(item.Item{layout.AttrTTL: want}, layout.AttrTTL); n < end/1000 {
		t.Errorf("ttl %d, and slots count until %d", n, end/1000)
	}
}
