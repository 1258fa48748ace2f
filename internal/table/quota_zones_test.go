package table_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Two processes have different data of one zone, by up to three hours: to each the item looks
// as if it had a zone of another offset. In every pattern of who comes before, between and
// behind their edges, three edges long, each edge begins the quota once: no earlier edge takes
// the place of a later one, however unlike the gaps between them are.
func TestProcessesWithDifferentZoneDataBeginAPeriodOnce(t *testing.T) {
	const hour, day = 3600_000, 86_400_000
	const year = 20_819 * day // 2027, of UTC
	for _, tt := range []struct {
		reset string
		edges [3]int64
		zones [2]string
	}{
		{"m0h0@UTC", [3]int64{year, year + day, year + 2*day}, [2]string{"UTC", "Etc/GMT+1"}},
		{"m0h0@UTC", [3]int64{year, year + day, year + 2*day}, [2]string{"Etc/GMT-1", "Etc/GMT+2"}},
		{"m0h0D1,2@UTC", [3]int64{year, year + day, year + 31*day}, [2]string{"UTC", "Etc/GMT+1"}},
		{"m0h0D1M1,2@UTC", [3]int64{year, year + 31*day, year + 365*day}, [2]string{"UTC", "Etc/GMT-1"}},
	} {
		for pattern := range 1 << 9 {
			it := shardWith(t, tt.reset, year-6*hour, nil)
			granted := 0
			for slot := range 9 {
				// Behind all edges of the last time, between them, and before: whoever comes, uses what there is.
				at := tt.edges[slot/3] + []int64{-90 * 60_000, 30 * 60_000, 5 * hour}[slot%3]
				zone := tt.zones[pattern>>slot&1]
				for {
					after, ok := chargeAs(t, it, zone, at)
					if !ok {
						break
					}
					it = after
					granted += 2
				}
			}
			if want := 6 + 3*10; granted != want { // what is left of the period before, and of each behind an edge
				t.Fatalf("%s, %v, pattern %09b: %d granted at three edges, want %d", tt.reset, tt.zones, pattern, granted, want)
			}
		}
	}
}

// A day and a month end at different edges, and by zone data of others perhaps an hour later. Both
// ends are stored: whoever reads the bucket goes by them. A quota that never ends has none.
func TestEveryPeriodHasAnEndOfItsOwn(t *testing.T) {
	const hour, day = 3600_000, 86_400_000
	const year = 20_819 * day // 2027, of UTC
	quota := func(name, reset string) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: reset}
	}
	limits := []bucket.Limit{quota("day", "m0h0@UTC"), quota("month", "m0h0D1@UTC"), quota("never", "m0h0D1@UTC")}
	b := imageOf(1, limits, 0, 1, year+5*hour)
	ends := map[string]int64{"day": year + day, "month": year + 31*day + hour, "never": bucket.Never}
	for i := range b.State.Slots {
		if end, ok := ends[b.State.Slots[i].Name]; ok {
			b.State.Slots[i].End = end
		}
	}
	got := decode(t, b.Item())
	ends["never"] = year + 31*day // as the reader's own zones have it
	for name, want := range ends {
		if end := got.State.Slots[got.State.Index(name)].End; end != want {
			t.Errorf("%s ends at %d, want %d", name, end, want)
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
	b := decode(t, seen)
	plan := table.Charge{Image: b, Costs: table.Costs(b.State.Limits(), 2*bucket.Milli), Now: now}.Plan()
	if !plan.Verdict.Granted {
		return it, false
	}
	after = applied(t, plan.Update, it)
	return after, true
}

// A charge within a period leaves alone what says which quota it is and which period it is in. Of two
// quotas in different zones, the item has the zone of one, and the other says its own. That stays
// while there is a quota of the zone; when there is none, the next one's zone is stored. When the last
// calendar goes, the zone stays, and is never written empty: no client reads an item whose zone has no name.
func TestWhatAChargeWritesOfCalendars(t *testing.T) {
	const now = 1_800_000_000_000
	quota := func(name, zone string) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@" + zone}
	}
	tokyo, utc, paris := quota("a", "Asia/Tokyo"), quota("b", "UTC"), quota("b", "Europe/Paris")
	rate := bucket.Limit{Name: "a", Capacity: 10_000, Amount: 10_000, Period: 60_000}
	first, other := tokyo, rate
	first.Reset, other.Name = "+3600", "rpm"
	for _, c := range []struct {
		name         string
		before, then []bucket.Limit
		zone         string   // that is stored after the charge
		sets         []string // attributes of calendars that it sets
	}{
		{"one quota", []bucket.Limit{utc}, []bucket.Limit{utc}, "UTC", nil},
		{"two zones", []bucket.Limit{tokyo, utc}, []bucket.Limit{tokyo, utc}, "Asia/Tokyo", nil},
		{"another calendar", []bucket.Limit{tokyo, utc}, []bucket.Limit{tokyo, paris}, "Asia/Tokyo", []string{"b_b_rsched"}},
		{"a new quota", []bucket.Limit{utc}, []bucket.Limit{tokyo, utc}, "UTC", []string{"b_a_rsched"}},
		{"the zone goes", []bucket.Limit{tokyo, utc}, []bucket.Limit{rate, utc}, "UTC", []string{"b_b_rsched", "sched_tz"}},
		{"a rate becomes a quota", []bucket.Limit{rate}, []bucket.Limit{tokyo}, "Asia/Tokyo",
			[]string{"b_a_rsched", "sched_tz"}},
		{"the last one becomes a rate", []bucket.Limit{tokyo}, []bucket.Limit{rate}, "Asia/Tokyo", nil},
		{"it is taken out", []bucket.Limit{tokyo}, []bucket.Limit{other}, "Asia/Tokyo", nil},
		{"it becomes one from the first use", []bucket.Limit{tokyo}, []bucket.Limit{first}, "Asia/Tokyo", nil},
	} {
		put, b := create(now, table.Costs(c.before, 0, 0))
		u := table.Charge{Image: b, Costs: table.Costs(c.then, 1000, 1000), Now: now + 1000}.Plan().Update
		after := applied(t, u, put.Item)
		var sets []string
		for _, a := range u.Set {
			if strings.HasSuffix(a.Name, "_rsched") || a.Name == "sched_tz" {
				sets = append(sets, a.Name)
			}
		}
		slices.Sort(sets)
		if !slices.Equal(sets, c.sets) || !item.Equal(after["sched_tz"], item.S(c.zone)) {
			t.Errorf("%s: sets %v, zone %v, want %v, %s", c.name, sets, after["sched_tz"], c.sets, c.zone)
		}
		got := decode(t, after)
		for _, l := range c.then {
			if i := got.State.Index(l.Name); i < 0 || got.State.Slots[i].Limit != l {
				t.Errorf("%s: %v, want %v", c.name, got.State, l)
			}
		}
	}
}
