package table

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// If only a level or a counter is stored, limits with costs are completed, and so is the meter.
// That begins a generation, so for an earlier image the limit is new. No level exceeds its
// capacity. A former level is not used for slots.
func TestLimitsStoredInPartAreFilledIn(t *testing.T) {
	day := newRate("day", 9_000, 86_400_000)
	rpm := newRate("rpm", 60_000, 60_000)
	slots := bucket.Limit{Name: "rpm", Capacity: 60_000, Period: 30_000, InFlight: true}
	for _, c := range []struct {
		name, stored string // the partly stored limit
		level        int64
		costs        []bucket.Limit
		want         string
		begins       bool
	}{
		{"wanted", "rpm", 4_000, []bucket.Limit{day, rpm}, "day:9 rpm:4 wcu:999", true},
		{"in debt", "rpm", -4_000, []bucket.Limit{day, rpm}, "day:9 rpm:-4 wcu:999", true},
		{"above its capacity", "rpm", 61_000, []bucket.Limit{day, rpm}, "day:9 rpm:60 wcu:999", true},
		{"not wanted", "rpm", 4_000, []bucket.Limit{day}, "day:9 wcu:999", false},
		{"not named by a charge without costs", "rpm", 4_000, nil, "day:9 wcu:999", false},
		{"wanted as slots", "rpm", 4_000, []bucket.Limit{day, slots}, "day:9 wcu:999", true},
		{"the meter", bucket.WCU, 4_000, []bucket.Limit{day}, "day:9 wcu:4", true},
	} {
		put, _ := create(sampleNow, Costs([]bucket.Limit{day}, 0))
		names := namesOf(c.stored)
		for _, attr := range names.level() {
			delete(put.Item, attr)
		}
		put.Item[names.tokens], put.Item[names.used] = item.N(c.level), item.N(77)
		image := decode(t, put.Item)
		got := ""
		for _, sl := range image.mended(Costs(c.costs)).Slots {
			got += " " + sl.Name + ":" + bucket.Tokens(sl.Tokens)
			if sl.Name == c.stored && sl.Used != 77 {
				t.Errorf("%s: the counter is %d", c.name, sl.Used)
			}
		}
		check.Equal(t, got, " "+c.want, c.name)
		after := applied(t, Charge{Image: image, Costs: Costs(c.costs), Now: sampleNow, Force: true}.Plan().Update, put.Item)
		check.Equal(t, !item.Equal(after[AttrGeneration], put.Item[AttrGeneration]), c.begins, c.name)
	}
}

// One write names 32 limits and the meter. An item with more keeps the limits of the charge, and
// others in order of name while there is room.
func TestOneWriteKeepsAtMost32Limits(t *testing.T) {
	limits := func(n int) []bucket.Limit { return newRates(0, n) }
	for _, c := range []struct {
		name   string
		stored int
		costs  []bucket.Limit
		want   string // the remaining names, from first to last
	}{
		{"as many as one write names", 32, limits(32)[31:], "l00 to l31, wcu"},
		{"as many, and a new one is charged", 32, limits(99)[98:], "l00 to l30, wcu"},
		{"a full set, and as many new ones", 30, limits(60)[30:], "l00 to l01, wcu"},
		{"one more, and one is charged", 33, limits(33)[32:], "l00 to l30, l32 to l32, wcu"},
		{"two of many are charged", 40, limits(40)[38:], "l00 to l29, l38 to l39, wcu"},
		{"one charged limit is new", 40, []bucket.Limit{limits(40)[39], limits(50)[49]}, "l00 to l29, l39 to l39, wcu"},
		{"nothing is charged", 40, []bucket.Limit{}, "l00 to l31, wcu"},
		{"stored limits are refilled", 40, nil, "l00 to l39, wcu"},
	} {
		b := imageOf(0, limits(c.stored), 0, 1, sampleNow)
		got, first, last := "", "", -2
		for _, sl := range b.mended(Costs(c.costs)).Slots {
			i := slices.IndexFunc(limits(99), func(l bucket.Limit) bool { return l.Name == sl.Name })
			if i != last+1 {
				if first != "" {
					got += fmt.Sprintf("%s to l%02d, ", first, last)
				}
				first = sl.Name
			}
			last = i
		}
		check.Equal(t, got+first, c.want, c.name)
		check.Equal(t, len(b.State.Slots), c.stored+1, "%s: the image has limits left", c.name)
	}
}

// Any number of a bucket's limits may be renamed at once: DynamoDB accepts the first charge under
// the new names, though none of the old limits is full.
func TestLimitsMayBeRenamed(t *testing.T) {
	named := func(prefix string, n int) (out []bucket.Limit) {
		for i := range n {
			out = append(out, newQuota(fmt.Sprintf("%s%02d", prefix, i), 9_000, "m0h0D1"))
		}
		return out
	}
	for renamed := range bucket.MaxLimits + 1 {
		image := imageOf(1<<20, named("old", bucket.MaxLimits), 0, 1, sampleNow)
		for i := range image.State.Slots {
			image.State.Slots[i].Tokens -= 500
		}
		limits := append(named("old", bucket.MaxLimits-renamed), named("new", renamed)...)
		out := Charge{Image: image, Costs: Costs(limits, 1_000), Now: sampleNow + 1}.Plan()
		check.NoError(t, item.Validate(out.Update), "%d renamed", renamed)
		check.Equal(t, out.Verdict.Granted, true, "%d renamed: granted", renamed)
	}
}
