package table

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A cost needs a share that holds it and its floor: for a cost of 6 with a floor of 40 %, a share
// of 10, rounded up.
func TestCostsNeedAShareWithTheirFloor(t *testing.T) {
	for _, c := range []struct{ milli, floor, want int64 }{
		{6000, 0, 6000}, {6000, 40, 10_000}, {1, 40, 2}, {5999, 40, 9999}, {6001, 40, 10_002}, {0, 40, 0}, {7, 99, 700},
		{99, 1, 100}, {-5, 0, -5},
	} {
		check.Equal(t, (Cost{Milli: c.milli, Floor: c.floor}).Share(), c.want, "%d that leaves %d %%", c.milli, c.floor)
	}
}

// Only rates go into debt, and only without a floor.
func TestOnlyRatesAreOwed(t *testing.T) {
	rate := newRate("r", 1000, 1000)
	for _, c := range []struct {
		cost Cost
		want bool
	}{
		{Cost{Limit: rate, Milli: 5}, true}, {Cost{Limit: rate, Milli: 5, Floor: 40}, false},
		{Cost{Limit: rate, Floor: 40}, true}, {Cost{Limit: rate, Milli: 1, Floor: 40}, false},
		{Cost{Limit: bucket.Limit{Name: "q", Reset: "+5"}, Milli: 5}, false},
		{Cost{Limit: bucket.Limit{Name: "s", InFlight: true, Period: 5000}, Milli: 5}, false},
	} {
		check.Equal(t, c.cost.Owed(), c.want, "%+v", c.cost)
	}
}

// Slots can be given back or moved only while they count: in the current epoch or the one before,
// with the same length of epochs, and at most as many.
func TestOnlyCountedSlotsCanBeGivenBack(t *testing.T) {
	fly := bucket.Limit{Name: "fly", Capacity: 10_000, Period: 30_000, InFlight: true}
	s := bucket.New([]bucket.Limit{fly}, 0, 1, 40_000).Take([]int64{4000, 0})
	longer := fly
	longer.Period = 60_000
	for _, c := range []struct {
		name string
		at   int64
		cost Cost
		want bool
	}{
		{"all", 40_000, Cost{Limit: fly, Milli: -4000, End: 60_000}, true},
		{"moved", 40_000, Cost{Limit: fly, Milli: 4000, End: 60_000}, true},
		{"too many", 40_000, Cost{Limit: fly, Milli: -4001, End: 60_000}, false},
		{"too many moved", 40_000, Cost{Limit: fly, Milli: 4001, End: 60_000}, false},
		{"in the next epoch", 70_000, Cost{Limit: fly, Milli: -4000, End: 60_000}, true},
		{"two later", 100_000, Cost{Limit: fly, Milli: -4000, End: 60_000}, false},
		{"of the epoch before", 40_000, Cost{Limit: fly, Milli: -1, End: 30_000}, false},
		{"of another length", 40_000, Cost{Limit: longer, Milli: -4000, End: 60_000}, false},
		{"of another length, by the same number", 40_000, Cost{Limit: longer, Milli: -4000, End: 120_000}, false},
		{"of no slots", 40_000, Cost{Limit: bucket.Limit{Name: "wcu"}, Milli: -1}, false},
		{"not there", 40_000, Cost{Limit: bucket.Limit{Name: "x", InFlight: true, Period: 5000}, End: 5000}, false},
	} {
		check.Equal(t, c.cost.Counts(s.At(c.at)), c.want, c.name)
	}
}

// Tokens are given back if they still count: slots in their epoch and the next, a quota's in its
// period. Late give-backs are skipped, and do not affect the rest.
func TestLateGiveBacksAreSkipped(t *testing.T) {
	const now, hour = 1_800_000_010_000, 3_600_000
	limits := []bucket.Limit{
		{Name: "fly", Capacity: 10_000, Period: 30_000, InFlight: true},
		newQuota("hourly", 10_000, "m0@UTC"),
		newRate("rpm", 10_000, hour),
	}
	put, b := create(now, Costs(limits, 4000, 4000, 4000))
	end := func(name string) int64 { return slotNamed(b, name).End }
	for _, c := range []struct {
		name        string
		later       int64
		fly, hourly int64 // when their epoch or period ends
		want        []int64
	}{
		{"at once", 0, end("fly"), end("hourly"), []int64{7000, 7000, 7000}},
		{"of any period", 0, end("fly"), 0, []int64{7000, 7000, 7000}},
		{"in the next epoch", 30_000, end("fly"), end("hourly"), []int64{7000, 7000, 7083}},
		{"two epochs later", 60_000, end("fly"), end("hourly"), []int64{6000, 7000, 7166}},
		{"two epochs before", 0, end("fly") - 60_000, end("hourly"), []int64{6000, 7000, 7000}},
		{"the period before", 0, end("fly"), end("hourly") - hour, []int64{7000, 6000, 7000}},
	} {
		costs := Costs(limits, -1000, -1000, -1000)
		costs[0].End, costs[1].End = c.fly, c.hourly
		costs[2].End = now - hour // it was a quota when the tokens were taken; a rate has no periods
		plan := Charge{Image: b, Costs: costs, Now: now + c.later, Force: true}.Plan()
		got := decode(t, applied(t, plan.Update, put.Item))
		for i, l := range limits {
			check.Equal(t, slotNamed(got, l.Name).Tokens, c.want[i], "%s: of %s", c.name, l.Name)
		}
	}
}

// A quota's tokens are given back to the item from which they were taken, or to an older one, from
// which that shard was split. They are not given back to an item created since, which has no record
// of them. More tokens are taken from an item of any age, in any period.
func TestNothingIsGivenBackToAYoungerItem(t *testing.T) {
	const now = 1_800_000_010_000
	for _, limit := range []bucket.Limit{
		newQuota("hourly", 10_000, "m0@UTC"),
		newQuota("first", 10_000, "+3600"),
	} {
		put, b := create(now, Costs([]bucket.Limit{limit}, 4000))
		for born, want := range map[int64]bool{0: true, now/1000 - 1: false, now / 1000: true, now/1000 + 1: true} {
			cost := Cost{Limit: limit, Milli: -1000, End: slotNamed(b, limit.Name).End, Born: born}
			words := fmt.Sprintf("%s taken from an item created at %d, given back to one created at %d",
				limit.Name, born, b.Born)
			check.Equal(t, holds(t, Adjust(b.Key(), []Cost{cost}), put.Item), want, words)
			check.Equal(t, cost.Younger(b), !want, words+": younger")
		}
		more := Cost{Limit: limit, Milli: 1000, End: now - 5_000, Resets: 1, Born: b.Born - 1} // taken from any item
		applied(t, Adjust(b.Key(), []Cost{more}), put.Item)
	}
}

// A cost that takes tokens also needs the floor of its own limit.
func TestCostsNeedTheirFloor(t *testing.T) {
	limits := []bucket.Limit{{Name: "a", Capacity: 100_000, Amount: 1000, Period: 1000},
		{Name: "b", Capacity: 10_000, Amount: 1000, Period: 1000}, newRate("c", 1000, 1000)}
	unlimited := newRate("a", 1e18, 1000)
	s := bucket.New(limits, 0, 1, sampleNow)
	for _, c := range []struct {
		costs []Cost
		want  []int64 // of a, b, c and the meter
	}{
		{[]Cost{{Limit: limits[0], Milli: 5000}, {Limit: limits[1], Milli: 5, Floor: 40}}, []int64{5000, 4005, -1, -1}},
		{[]Cost{{Limit: limits[1], Milli: 1, Floor: 40}, {Limit: limits[0], Milli: 1}}, []int64{1, 4001, -1, -1}},
		{[]Cost{{Limit: limits[1], Floor: 40}, {Limit: limits[2], Milli: 2, Floor: 1}}, []int64{-1, 0, 12, -1}},
		{[]Cost{{Limit: limits[1], Milli: -7, Floor: 40}, {Limit: bucket.Limit{Name: "gone"}, Milli: 3, Floor: 40}},
			[]int64{-1, -7, -1, -1}},
		{[]Cost{{Limit: unlimited, Milli: 5, Floor: 40}}, []int64{4e17 + 5, -1, -1, -1}},
	} {
		check.Slices(t, needsBySlot(nil, s, c.costs), c.want, "%+v", c.costs)
	}
}
