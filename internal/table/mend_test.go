package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Of what is stored in part, a level and a counter, limits that have costs are filled in, and the
// meter. No level rises above its capacity. A limit of slots takes over no level.
func TestLimitsStoredInPartAreFilledIn(t *testing.T) {
	day := bucket.Limit{Name: "day", Capacity: 9_000, Amount: 9_000, Period: 86_400_000}
	rpm := bucket.Limit{Name: "rpm", Capacity: 60_000, Amount: 60_000, Period: 60_000}
	slots := bucket.Limit{Name: "rpm", Capacity: 60_000, Period: 30_000, AtOnce: true}
	for _, c := range []struct {
		name, stored string // the limit that is stored in part
		level        int64
		costs        []bucket.Limit
		want         string
	}{
		{"wanted", "rpm", 4_000, []bucket.Limit{day, rpm}, "day:9 rpm:4 wcu:999"},
		{"in debt", "rpm", -4_000, []bucket.Limit{day, rpm}, "day:9 rpm:-4 wcu:999"},
		{"above its capacity", "rpm", 61_000, []bucket.Limit{day, rpm}, "day:9 rpm:60 wcu:999"},
		{"not wanted", "rpm", 4_000, []bucket.Limit{day}, "day:9 wcu:999"},
		{"not wanted by what takes nothing", "rpm", 4_000, nil, "day:9 wcu:999"},
		{"wanted as slots", "rpm", 4_000, []bucket.Limit{day, slots}, "day:9 wcu:999"},
		{"the meter", bucket.WCU, 4_000, []bucket.Limit{day}, "day:9 wcu:4"},
	} {
		put, _ := Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Now: sampleNow,
			Costs: Costs([]bucket.Limit{day}, 0)})
		names := namesOf(c.stored)
		for _, attr := range names.level() {
			delete(put.Item, attr)
		}
		put.Item[names.tokens], put.Item[names.used] = item.N(c.level), item.N(77)
		image, err := DecodeShard(put.Item)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, sl := range image.mended(Costs(c.costs)).Slots {
			got += " " + sl.Name + ":" + bucket.Tokens(sl.Tokens)
			if sl.Name == c.stored && sl.Used != 77 {
				t.Errorf("%s: the counter is %d", c.name, sl.Used)
			}
		}
		if got != " "+c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
