package table

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

// Another shard has begun a first-use period, and this shard has not applied it yet. Then its quota
// is full minus the tokens taken since: it had 3 of 10 left, and 2 were taken.
func TestPeriodsBegunByAnotherShardRefillTheQuota(t *testing.T) {
	quota := newQuota("q", 10_000, "+3600")
	b := imageOf(0, []bucket.Limit{quota}, 0, 1, sampleNow)
	i := b.State.Index("q")
	b.State.Slots[i].Tokens, b.State.Slots[i].Used = 3_000, 7_000
	for _, c := range []struct {
		name           string
		start, applied int64
		before         int64 // the counter at the beginning; -1: not stored
		level          int64
	}{
		{"applied", sampleNow, sampleNow, 5_000, 3_000},
		{"not applied", sampleNow, sampleNow - 1, -1, 10_000},
		{"not applied, and 2 were taken", sampleNow, sampleNow - 1, 5_000, 8_000},
		{"not applied, and some given back", sampleNow, sampleNow - 1, 9_000, 10_000},
	} {
		it := b.Item()
		it[attrLimit("q", fieldStart)], it[attrLimit("q", fieldApplied)] = item.N(c.start), item.N(c.applied)
		if c.before >= 0 {
			it[attrLimit("q", fieldBefore)] = item.N(c.before)
		}
		got := decode(t, it)
		sl := got.State.Slots[i]
		if sl.Tokens != c.level || sl.PeriodPending != (c.start > c.applied) || sl.End != c.start+3_600_000 {
			t.Errorf("%s: %+v, want %d", c.name, sl, c.level)
		}
		it[attrLimit("q", fieldBefore)] = item.S("x")
		_, err := DecodeShard(it)
		check.Equal(t, err != nil && strings.Contains(err.Error(), "b_q_wtc"), (c.start > c.applied),
			"%s, the earlier count is not a number: %v", c.name, err)
	}
}

// An unused first-use quota waits for its first use. The item records this: until then every charge
// must look first.
func TestUnusedFirstUseQuotasAreRecorded(t *testing.T) {
	rate := newRate("rpm", 10_000, 60_000)
	quota := newQuota("q", 10_000, "+3600")
	limits := []bucket.Limit{quota, rate}
	put, b := create(sampleNow, Costs(limits[1:], 9000))
	it := put.Item
	for i, costs := range [][]Cost{Costs(limits, 0, 1000), Costs(limits, 1000, 0)} {
		it = applied(t, Charge{Image: b, Costs: costs, Now: sampleNow + int64(i)}.Plan().Update, it)
		b = decode(t, it)
		waits := i == 0
		if !b.Calendars.Has || (b.Calendars.Until == 0) != waits || (slotNamed(b, "q").End == 0) != waits {
			t.Errorf("after charge %d: %+v, %v", i, b.Calendars, b.State)
		}
	}
}

// The period ends in an item count for its calendars while they are in the future.
func TestStoredEndsCountForTheirCalendars(t *testing.T) {
	day := newQuota("day", 10_000, "m0h0@UTC")
	first, rate := day, newRate("rate", 10_000, 60_000)
	first.Name, first.Reset = "first", "+3600"
	for _, c := range []struct {
		name  string
		until int64 // of the item
		end   int64 // stored end of each limit
		want  bool  // whether it counts for the calendar
	}{
		{"to come", 1, sampleNow + 1, true}, {"just over", 1, sampleNow, false}, {"over", 1, sampleNow - 1, false},
		{"another client's item", 0, sampleNow + 1, false},
	} {
		b := Shard{State: bucket.New([]bucket.Limit{day, first, rate}, 0, 1, sampleNow),
			Calendars: Calendars{Until: c.until}}
		want := slices.Clone(b.State.Slots)
		if c.want {
			want[b.State.Index("day")].End = c.end
		}
		ends := item.Item{"day": item.N(c.end), "first": item.N(c.end), "rate": item.N(c.end), "gone": item.N(c.end)}
		if err := b.decodeEnds(item.Map(ends)); err != nil || !slices.Equal(b.State.Slots, want) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, b.State.Slots, err, want)
		}
	}
}

// A finished first-use period begins no generation of the item. The next use of the quota does.
func TestFinishedPeriodsBeginNoGeneration(t *testing.T) {
	limits := []bucket.Limit{newQuota("q", 10_000, "+3600"), newRate("rpm", 10_000, 60_000)}
	put, b := create(sampleNow, Costs(limits, 1000, 1000))
	it, over := put.Item, slotNamed(b, "q").End+bucket.EdgeMargin
	for i, c := range []struct {
		cost int64 // of the quota
		same bool
	}{{0, true}, {0, true}, {1000, false}, {1000, true}} {
		plan := Charge{Image: b, Costs: Costs(limits, c.cost, 1000), Now: over + int64(i)*1000}.Plan()
		it = applied(t, plan.Update, it)
		next := decode(t, it)
		check.Equal(t, next.Generation == b.Generation, c.same, "charge %d: the same generation, %v", i, next.State)
		b = next
	}
}

// After the end of its period a quota is full, whatever others took since the image: 7 of 10 are
// left in the image, and 5 more are taken. The same holds if the write changes the calendar too,
// and for a first-use quota.
func TestQuotasAreFullAfterLateCharges(t *testing.T) {
	daily, hourly := "m0h0@UTC", "m0@UTC"
	for _, c := range []struct {
		before, after string
		cost          int64
	}{
		{daily, daily, 4000}, {daily, hourly, 4000}, {hourly, daily, 4000}, {daily, "m0h5@UTC", 4000},
		{"+3600", "+3600", 4000}, {hourly, "+7200", 4000}, {hourly, "+7200", 0}, {"+3600", "+3600", 0},
	} {
		quota := newQuota("q", 10_000, c.before)
		put, b := create(sampleNow, Costs([]bucket.Limit{quota}, 3000))
		others := Charge{Image: b, Costs: Costs([]bucket.Limit{quota}, 5000), Now: sampleNow + 1000}.Plan()
		stored := applied(t, others.Update, put.Item)
		over := slotNamed(b, "q").End + bucket.EdgeMargin
		quota.Reset = c.after
		next := Charge{Image: b, Costs: Costs([]bucket.Limit{quota}, c.cost), Now: over}.Plan()
		got := decode(t, applied(t, next.Update, stored))
		check.Equal(t, slotNamed(got, "q").Tokens, 10_000-c.cost, "from %s to %s: left of 10,000", c.before, c.after)
	}
}

func TestResetsAreCounted(t *testing.T) {
	quota := newQuota("q", 10_000, "m0h0@UTC")
	put, b := create(sampleNow, Costs([]bucket.Limit{quota}, 3000))
	it := put.Item
	for n := range int64(3) {
		it = applied(t, Raise(b, map[string]bucket.Gift{"q": {Whole: true}}, sampleNow+n+1), it)
		b = decode(t, it)
		check.MustEqual(t, slotNamed(b, "q").Resets, n+1, "resets")
	}
}

// The start of a first-use period is removed with its calendar, even if the next period ends at the
// same instant.
func TestPeriodStartsAreRemovedWithTheirCalendar(t *testing.T) {
	quota := newQuota("q", 10_000, "+3600")
	const hour = 1_700_002_800_000
	put, b := create(hour, Costs([]bucket.Limit{quota}, 3000))
	quota.Reset = "m0@UTC"
	plan := Charge{Image: b, Costs: Costs([]bucket.Limit{quota}, 1000), Now: hour + 2000}.Plan()
	after := applied(t, plan.Update, put.Item)
	if sl := slotNamed(decode(t, after), "q"); sl.End != hour+3_600_000 ||
		put.Item["b_q_ws"] == nil || after["b_q_ws"] != nil || after["b_q_wa"] != nil {
		t.Errorf("%+v, %v", sl, after)
	}
}

// Six limits of mixed kinds (three rates, a calendar, money and a first-use quota) fit into one
// write unit with realistic numbers and a 40-character entity id. Eight do not, as
// docs/budgets-and-quotas.md says.
func TestBucketsOfMixedKindsCostOneWriteUnit(t *testing.T) {
	rate := func(name string, n int64) bucket.Limit { return newRate(name, n*bucket.Milli, 60_000) }
	quota := func(name string, n int64, reset string) bucket.Limit { return newQuota(name, n*bucket.Milli, reset) }
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
	withSlots := append(six[:5:5], slotsLimit("fly", 250))
	check.Equal(t, itemtest.WriteUnits(nil, b(six...).Item()), 1, "write units of 6 limits of mixed kinds")
	check.Equal(t, itemtest.WriteUnits(nil, b(withSlots...).Item()), 1, "write units of 6 limits with slots")
	check.Equal(t, item.Size(b(eight...).Item()), 1098, "bytes of 8 limits of mixed kinds, which take two write units")
}
