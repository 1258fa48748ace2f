package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A period from the first use that another shard has begun, and that is not applied to this one
// yet, makes the quota whole, less what was taken since: of 10 it had 3 left, and 2 were taken.
func TestAPeriodThatAnotherShardBegan(t *testing.T) {
	const now = 1_700_000_000_000
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"}
	b := Shard{Namespace: "ns", Entity: "e", Resource: "r", State: bucket.New([]bucket.Limit{quota}, 0, 1, now)}
	i := b.State.Index("q")
	b.State.Slots[i].Tokens, b.State.Slots[i].Used = 3_000, 7_000
	for _, c := range []struct {
		name           string
		start, applied int64
		before         int64 // what was counted when it began; -1: it does not say
		level          int64
	}{
		{"applied", now, now, 5_000, 3_000},
		{"not applied", now, now - 1, -1, 10_000},
		{"not applied, and 2 were taken", now, now - 1, 5_000, 8_000},
		{"not applied, and some given back", now, now - 1, 9_000, 10_000},
	} {
		it := b.Item()
		it[attrLimit("q", fieldStart)], it[attrLimit("q", fieldApplied)] = item.N(c.start), item.N(c.applied)
		if c.before >= 0 {
			it[attrLimit("q", fieldBefore)] = item.N(c.before)
		}
		got, err := DecodeShard(it)
		if err != nil {
			t.Fatal(err)
		}
		sl := got.State.Slots[i]
		if sl.Tokens != c.level || sl.Told != (c.start > c.applied) || sl.End != c.start+3_600_000 {
			t.Errorf("%s: %+v, want %d", c.name, sl, c.level)
		}
	}
}
