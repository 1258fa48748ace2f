package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A settlement moves exactly the settled tokens from the level to the counter, even a millitoken.
// It ignores limits without a settlement, which need not be stored. It only gives slots back: more
// slots need a charge, which checks that there are any.
func TestSettlementsMoveOnlySettledTokens(t *testing.T) {
	gone := newRate("gone", 1000, 1000)
	for _, milli := range []int64{-2, -1, 1, 2, 5_000_000} {
		b := tenAt(sampleNow)
		costs := append(tenCosts(milli), Cost{Limit: gone})
		for name, u := range map[string]item.Update{"metered": Adjust(b.Key(), costs),
			"unmetered": Release(b.Key(), Released{Back: costs, Unmetered: true})} {
			sl := decode(t, applied(t, u, b.Item())).State.Slots[0]
			check.Equal(t, sl.Tokens, 10_000-milli, "%d, %s: level", milli, name)
			check.Equal(t, sl.Used, 100_000+milli, "%d, %s: counter", milli, name)
		}
	}
	fly := bucket.Limit{Name: "fly", Capacity: 10_000, Period: 30_000, InFlight: true}
	put, b := create(sampleNow, Costs([]bucket.Limit{fly}, 4_000))
	for milli, want := range map[int64]int64{1_000: 4_000, -1_000: 3_000} {
		costs := Costs([]bucket.Limit{fly}, milli)
		costs[0].End = b.State.Slots[0].End
		after := applied(t, Adjust(b.Key(), costs), put.Item)
		check.Deep(t, after[takenAttr("fly", fly.EpochAt(sampleNow))], item.N(want), "%d slots", milli)
	}
}
