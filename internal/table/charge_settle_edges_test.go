package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// What begins the period of a quota from its first use goes alone: a charge that costs nothing of it would
// take without beginning one, and no edge would ever come.
func TestWhatBeginsAPeriodGoesAlone(t *testing.T) {
	q := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"}
	_, image := create(sampleNow, []Cost{{Limit: q}})
	s := Cost{Limit: q, Milli: 10_000}
	if image.Rides(image.State.At(sampleNow), s) {
		t.Error("it rides on a charge that begins no period")
	}
	begun, _ := written(t, image, Charge{Image: image, Costs: []Cost{s}, Force: true, Now: sampleNow + 1})
	if begun.State.Slots[0].End == 0 || !begun.Rides(begun.State.At(sampleNow+2), s) {
		t.Errorf("alone it ends at %d", begun.State.Slots[0].End)
	}
}

// What a settlement gives back leaves room for what is held: level and held tokens are never more than a full
// bucket. Of 10, 4 are held and 6 are there; 4 come back and 6 are taken. 4 more would make 14.
func TestGivingBackLeavesRoomForWhatIsHeld(t *testing.T) {
	const at = sampleNow
	full := tenAt(at)
	b, _ := written(t, full, Charge{Image: full, Costs: tenCosts(5_000), Now: at,
		Ahead: &Ahead{Life: 60_000, Take: tenCosts(4_000)}})
	now := at + int64(5_000)
	one, held := written(t, b, Charge{Image: b, Costs: tenCosts(6_000), Settles: tenCosts(-4_000), Now: now})
	if !held || (Charge{Image: one, Costs: tenCosts(4_000), Now: now}).Plan().Verdict.Granted {
		t.Errorf("held %v, and 4 more are granted beside the 4 that are held", held)
	}
}

// A settlement from an old image that shows full is refused where others have taken since, of soft limits and
// of limits that the request does not name, too: what was refilled meanwhile would look like debt.
func TestASettlementFromAnOldImage(t *testing.T) {
	for _, soft := range []bool{true, false} {
		l := bucket.Limit{Name: "a", Capacity: 10_000, Amount: 10_000, Period: 1000, Soft: soft}
		r := bucket.Limit{Name: "r", Capacity: 10_000, Amount: 10_000, Period: 1000}
		_, image := create(sampleNow, []Cost{{Limit: l}, {Limit: r}})
		stored := image
		for i := range 20 { // others take 100 in 20 s, and all is refilled
			stored, _ = written(t, stored, Charge{Image: stored, Costs: []Cost{{Limit: l, Milli: 5000}, {Limit: r}},
				Now: sampleNow + int64(i)*1000})
		}
		costs := []Cost{{Limit: l, Milli: 1000}, {Limit: r, Milli: 1000}}
		if !soft {
			costs = costs[1:] // the limit is stored, and not in force for this request
		}
		late, held := written(t, stored, Charge{Image: image, Costs: costs, Settles: []Cost{{Limit: l, Milli: 15_000}},
			Now: sampleNow + 60_000, Slack: 30})
		if owed := late.State.Slots[late.State.Index("a")].Tokens; held && owed < -6_000 {
			t.Errorf("soft %v: %d are owed, want 6000 at most", soft, -owed)
		}
	}
}

// Differences of one limit are summed before they are capped: -5 and +5 of a level of 8 leave 8.
func TestDifferencesAreSummedFirst(t *testing.T) {
	_, image := create(sampleNow, tenCosts(2000))
	s := append(tenCosts(-5000), tenCosts(5000)...)
	b, held := written(t, image, Charge{Image: image, Costs: tenCosts(0), Settles: s, Now: sampleNow})
	if level := b.State.Slots[0].Tokens; !held || level != 8000 {
		t.Errorf("held %v, %d are left, want 8000", held, level)
	}
}
