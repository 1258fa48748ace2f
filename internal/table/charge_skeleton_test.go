package table

import (
	"maps"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

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
		whole = slices.DeleteFunc(whole, func(attr string) bool { return attr == AttrBorn }) // its creation time is unknown
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
