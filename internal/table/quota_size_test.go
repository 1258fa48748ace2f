package table

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Six limits of mixed kinds (three rates, a calendar, money and a quota from the
// first use) stay one write unit with realistic numbers and a 40-character entity id. Eight
// do not: docs/budgets-and-quotas.md says so.
func TestBucketsOfMixedKindsCostOneWriteUnit(t *testing.T) {
	rate := func(name string, n int64) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: n * bucket.Milli, Amount: n * bucket.Milli, Period: 60_000}
	}
	quota := func(name string, n int64, reset string) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: n * bucket.Milli, Period: bucket.QuotaPeriod, Reset: reset}
	}
	b := func(limits ...bucket.Limit) Shard {
		_, b := Create(NewBucket{Namespace: "aZ09_-aZ09_", Entity: strings.Repeat("e", 40), Resource: "gpt-4",
			Now: sampleNow, Lifetime: Expires, Costs: Costs(limits)})
		b.State.Shard, b.State.Shards = 7, 8
		for i := range b.State.Slots {
			b.State.Slots[i].Used, b.State.Slots[i].Tokens = 123_456_789_000, b.State.Slots[i].Tokens*2/3
			if n := b.State.Slots[i].FirstUse(); n > 0 {
				b.State.Slots[i].End = sampleNow + n
			}
		}
		b.State = b.State.At(sampleNow + 7)
		return b
	}
	const tokyo = "@Asia/Tokyo"
	six := []bucket.Limit{rate("rps", 40), rate("rpm", 600), rate("tpm", 90_000), quota("rpd", 10_000, "m0h0"+tokyo),
		quota("usd", 500_000_000, "m0h0D1"+tokyo), quota("ses", 500, "+18000")}
	eight := append(six[:6:6], rate("tph", 4_000_000), quota("tpw", 900_000_000, "m0h0w1"+tokyo))
	size, more := item.Size(b(six...).Item()), item.Size(b(eight...).Item())
	fly := slotsLimit("fly", 250)
	four := item.Size(b(rate("rpm", 600), rate("tpm", 90_000), six[4], fly).Item())
	withSlots := item.Size(b(append(six[:5:5], fly)...).Item())
	t.Logf("4 limits, a budget and slots among them: %d bytes, 6 limits with slots: %d", four, withSlots)
	if withSlots > 1024 {
		t.Errorf("6 limits with slots are %d bytes, more than one write unit", withSlots)
	}
	t.Logf("6 limits of mixed kinds: %d bytes, 8: %d", size, more)
	if size > 1024 {
		t.Errorf("6 limits of mixed kinds are %d bytes, more than one write unit", size)
	}
	if more != 1092 {
		t.Errorf("8 limits of mixed kinds are %d bytes, want 1092: two write units", more)
	}
}
