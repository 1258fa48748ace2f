package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// A planned write is independent of later plans and renderings.
func TestPlannedWritesAreIndependent(t *testing.T) {
	rpm, tpm := bucket.Limit{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000},
		bucket.Limit{Name: "tpm", Capacity: 7_000_000, Amount: 7_000_000, Period: 60_000}
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
		put, b := create(sampleNow, Costs([]bucket.Limit{{Name: "other", Capacity: 1000, Amount: 1000, Period: 1000}}, 0))
		it := put.Item
		for _, soft := range []bool{true, true, false, true, false} {
			l.Soft, l.Capacity = soft, l.Capacity+1000
			it = applied(t, Charge{Image: b, Costs: Costs([]bucket.Limit{l}), Now: sampleNow}.Plan().Update, it)
			b = decode(t, it)
			if got := b.State.Slots[b.State.Index(l.Name)].Limit; got != l.Bare() {
				t.Errorf("stored is %+v, want %+v", got, l)
			}
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
		image := decode(t, it)
		after := applied(t, Charge{Image: image, Costs: costs, Now: sampleNow + 4, Room: 20}.Plan().Update, it)
		got := decode(t, after)
		if n, _ := got.State.LevelAt(i, sampleNow+6); n != want {
			t.Errorf("from %d: %d after 6 ms, want %d", level, n, want)
		}
	}
}
