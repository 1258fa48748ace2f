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

func TestPlannedWritesAreIndependent(t *testing.T) {
	rpm, tpm := newRate("rpm", 100_000, 60_000), newRate("tpm", 7_000_000, 60_000)
	charge := func(n int) Charge {
		at := int64(1_000_000 + n)
		limits := []bucket.Limit{rpm, tpm}[:1+n%2] // one limit or two
		costs := Costs(limits)
		for i := range costs {
			costs[i].Milli = 1000 * int64(n)
		}
		return Charge{Image: Shard{Namespace: "default", Entity: "acme", Resource: "gpt", Generation: 1 << 50,
			State: bucket.New(limits, 0, 1, at)}, Now: at + 500, Costs: costs}
	}
	const many = 64
	var plans [many]Charged
	var want [many]string
	for n := range plans {
		plans[n] = charge(n).Plan()
		want[n] = shownWrite(plans[n])
	}
	for n := range plans {
		if got := shownWrite(plans[n]); got != want[n] {
			t.Fatalf("write %d was\n%s\nand is\n%s", n, want[n], got)
		}
	}
}

// shownWrite formats everything in a plan.
func shownWrite(c Charged) string {
	return render(c.Update).readable() + c.Before.String() + c.Update.Key.PK
}

// A limit with a level is stored as soft exactly while it is soft, whether it is new or changed.
func TestSoftLimitsAreStoredAsSoft(t *testing.T) {
	for _, l := range kinds() {
		if l.Returns() {
			continue
		}
		put, b := create(sampleNow, Costs([]bucket.Limit{newRate("other", 1000, 1000)}, 0))
		it := put.Item
		for _, soft := range []bool{true, true, false, true, false} {
			l.Soft, l.Capacity = soft, l.Capacity+1000
			it = applied(t, Charge{Image: b, Costs: Costs([]bucket.Limit{l}), Now: sampleNow}.Plan().Update, it)
			b = decode(t, it)
			check.Equal(t, slotNamed(b, l.Name).Limit, l.Bare(), "stored")
		}
	}
}

// A level exactly at its room keeps its remainder: at 3 ms per millitoken, one ms has passed, so
// two more complete the millitoken.
func TestRoomKeepsRemainders(t *testing.T) {
	limit := bucket.Limit{Name: "l", Capacity: 10_000, Amount: 1000, Period: 3000}
	costs := Costs([]bucket.Limit{limit})
	put, b := create(sampleNow, costs)
	i := b.State.Index("l")
	for level, want := range map[int64]int64{7998: 8000, 7999: 8001, 8000: 8000, 9000: 8000} { // at 4 ms; after 2 more
		b.State.Slots[i].Tokens, b.State.Slots[i].Used = level, 10_000-level
		it := b.Item()
		it[AttrGeneration] = put.Item[AttrGeneration]
		u := Charge{Image: decode(t, it), Costs: costs, Now: sampleNow + 4, Room: 20}.Plan().Update
		n, _ := decode(t, applied(t, u, it)).State.LevelAt(i, sampleNow+6)
		check.Equal(t, n, want, "from %d, after 6 ms", level)
	}
}

// If the Python client settles or gives back after a bucket was deleted, the item has only
// counters. The first charge completes it: every client finds a bucket as full as a new one, minus
// the settlement.
func TestChargeMakesASkeletonABucket(t *testing.T) {
	for added, want := range map[int64]int64{-5_000: 94_000, 5_000: 99_000, -150_000: -51_000} {
		n := NewBucket{Namespace: "ns", Entity: "acme", Resource: "gpt", Now: sampleNow,
			Costs: Costs(sampleLimits[:1], 1000)}
		created, _ := Create(n)
		skeleton := layout.BucketKey("ns", "acme", "gpt", 0).Item()
		skeleton["b_rpm_tk"], skeleton["b_rpm_tc"] = item.N(added), item.N(-added)
		image := decode(t, skeleton)
		charge := Charge{Image: image, Costs: n.Costs, Now: sampleNow, Force: want < 0}.Plan()
		if !charge.Verdict.Granted && want >= 0 {
			t.Fatalf("%d added: the charge is not granted: %+v", added, charge.Verdict)
		}
		after := applied(t, charge.Update, skeleton)
		got, err := DecodeShard(after)
		if err != nil || got.State.Slots[0].Tokens != want || got.State.Slots[0].Used != 1000-added {
			t.Errorf("%d added: %+v, %v, want level %d and counter %d", added, got.State, err, want, 1000-added)
		}
		whole := slices.Sorted(maps.Keys(created.Item))
		whole = slices.DeleteFunc(whole, func(attr string) bool { return attr == AttrBorn }) // it is unknown
		have := slices.Sorted(maps.Keys(after))
		if !slices.Equal(have, whole) {
			t.Errorf("%d added: attributes %v, want %v like a new bucket", added, have, whole)
		}
		for _, attr := range identity {
			if v, ok := created.Item[attr]; ok && !item.Equal(after[attr], v) {
				t.Errorf("%d added: %s is %v, want %v", added, attr, after[attr], v)
			}
		}
	}
}
