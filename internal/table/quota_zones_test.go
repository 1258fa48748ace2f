package table_test

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Two processes have different data of one zone, by up to three hours: to each the item looks
// as if it had a zone of another offset. In every pattern of who comes before, between and
// behind their midnights, three nights long, each night begins the quota once.
func TestProcessesWithDifferentZoneDataBeginAPeriodOnce(t *testing.T) {
	const hour, day = 3600_000, 86_400_000
	for _, zones := range [][2]string{{"UTC", "Etc/GMT+1"}, {"Etc/GMT-1", "Etc/GMT+2"}} {
		for pattern := range 1 << 9 {
			start := int64(1_800_000_000_000)/day*day + day // midnight of UTC
			it := shardWith(t, "m0h0@UTC", start-12*hour, nil)
			granted := 0
			for slot := range 9 {
				// Behind all edges of the last night, between them, and before: whoever comes, uses what there is.
				at := start + int64(slot/3)*day + []int64{-90 * 60_000, 30 * 60_000, 5 * hour}[slot%3]
				zone := zones[pattern>>slot&1]
				for {
					after, ok := chargeAs(t, it, zone, at)
					if !ok {
						break
					}
					it = after
					granted += 2
				}
			}
			if want := 6 + 3*10; granted != want { // what is left of the day before, and of each night
				t.Fatalf("%v, pattern %09b: %d granted in three nights, want %d", zones, pattern, granted, want)
			}
		}
	}
}

// chargeAs takes a token as a process that believes the zone of an item to be another.
func chargeAs(t *testing.T, it item.Item, zone string, now int64) (after item.Item, granted bool) {
	t.Helper()
	seen := item.Item{}
	for attr, v := range it {
		seen[attr] = v
	}
	seen["sched_tz"] = item.S(zone)
	b, err := table.DecodeShard(seen)
	if err != nil {
		t.Fatal(err)
	}
	plan := table.Charge{Image: b, Costs: table.Costs(b.State.Limits(), 2*bucket.Milli), Now: now}.Plan()
	if !plan.Verdict.Granted {
		return it, false
	}
	after, held, err := plan.Update.Apply(it)
	if err != nil || !held {
		t.Fatal(fmt.Sprint(held, err))
	}
	return after, true
}
