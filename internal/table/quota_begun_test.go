package table

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Another shard has begun a first-use period, and this shard has not applied it yet. Then its quota
// is full minus the tokens taken since: it had 3 of 10 left, and 2 were taken.
func TestPeriodsBegunByAnotherShardRefillTheQuota(t *testing.T) {
	const now = 1_700_000_000_000
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"}
	b := imageOf(0, []bucket.Limit{quota}, 0, 1, now)
	i := b.State.Index("q")
	b.State.Slots[i].Tokens, b.State.Slots[i].Used = 3_000, 7_000
	for _, c := range []struct {
		name           string
		start, applied int64
		before         int64 // the counter at the beginning; -1: not stored
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
		got := decode(t, it)
		sl := got.State.Slots[i]
		if sl.Tokens != c.level || sl.PeriodPending != (c.start > c.applied) || sl.End != c.start+3_600_000 {
			t.Errorf("%s: %+v, want %d", c.name, sl, c.level)
		}
		it[attrLimit("q", fieldBefore)] = item.S("x")
		_, err := DecodeShard(it)
		if named := err != nil && strings.Contains(err.Error(), "b_q_wtc"); named != (c.start > c.applied) {
			t.Errorf("%s, the earlier count is not a number: %v", c.name, err)
		}
	}
}

// An unused first-use quota waits for its first use. The item records this: until then every charge
// must look first.
func TestUnusedFirstUseQuotasAreRecorded(t *testing.T) {
	rate := bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 10_000, Period: 60_000}
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"}
	limits := []bucket.Limit{quota, rate}
	put, b := create(sampleNow, Costs(limits[1:], 9000))
	it := put.Item
	for i, costs := range [][]Cost{Costs(limits, 0, 1000), Costs(limits, 1000, 0)} {
		after := applied(t, Charge{Image: b, Costs: costs, Now: sampleNow + int64(i)}.Plan().Update, it)
		it = after
		b = decode(t, it)
		waits := i == 0
		if !b.Calendars.Has || (b.Calendars.Until == 0) != waits || (b.State.Slots[b.State.Index("q")].End == 0) != waits {
			t.Errorf("after charge %d: %+v, %v", i, b.Calendars, b.State)
		}
	}
}

// The period ends in an item count for its calendars while they are in the future.
func TestStoredEndsCountForTheirCalendars(t *testing.T) {
	day := bucket.Limit{Name: "day", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	first, rate := day, bucket.Limit{Name: "rate", Capacity: 10_000, Amount: 10_000, Period: 60_000}
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
	limits := []bucket.Limit{{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"},
		{Name: "rpm", Capacity: 10_000, Amount: 10_000, Period: 60_000}}
	put, b := create(sampleNow, Costs(limits, 1000, 1000))
	it, over := put.Item, b.State.Slots[b.State.Index("q")].End+bucket.EdgeMargin
	for i, c := range []struct {
		cost int64 // of the quota
		same bool
	}{{0, true}, {0, true}, {1000, false}, {1000, true}} {
		plan := Charge{Image: b, Costs: Costs(limits, c.cost, 1000), Now: over + int64(i)*1000}.Plan()
		after := applied(t, plan.Update, it)
		next := decode(t, after)
		if same := next.Generation == b.Generation; same != c.same {
			t.Errorf("charge %d: the same generation %v, %v", i, same, next.State)
		}
		it, b = after, next
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
		quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: c.before}
		put, b := create(sampleNow, Costs([]bucket.Limit{quota}, 3000))
		others := Charge{Image: b, Costs: Costs([]bucket.Limit{quota}, 5000), Now: sampleNow + 1000}.Plan()
		stored := applied(t, others.Update, put.Item)
		over := b.State.Slots[b.State.Index("q")].End + bucket.EdgeMargin
		quota.Reset = c.after
		next := Charge{Image: b, Costs: Costs([]bucket.Limit{quota}, c.cost), Now: over}.Plan()
		after, held, err := next.Update.Apply(stored)
		if err != nil || !held {
			t.Errorf("from %s to %s: held %v, %v", c.before, c.after, held, err)
			continue
		}
		got := decode(t, after)
		if sl := got.State.Slots[got.State.Index("q")]; sl.Tokens != 10_000-c.cost {
			t.Errorf("from %s to %s: %d are left of 10000 once %d are taken", c.before, c.after, sl.Tokens, c.cost)
		}
	}
}

// The item counts how often an operator refilled a quota.
func TestResetsAreCounted(t *testing.T) {
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	put, b := create(sampleNow, Costs([]bucket.Limit{quota}, 3000))
	it := put.Item
	for n := range int64(3) {
		after := applied(t, Raise(b, map[string]bucket.Gift{"q": {Whole: true}}, sampleNow+n+1), it)
		it = after
		if b = decode(t, it); b.State.Slots[b.State.Index("q")].Resets != n+1 {
			t.Fatalf("after %d resets: %+v", n+1, b.State.Slots)
		}
	}
}

// The start of a first-use period is removed with its calendar, even if the next period ends at the
// same instant.
func TestPeriodStartsAreRemovedWithTheirCalendar(t *testing.T) {
	quota := bucket.Limit{Name: "q", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "+3600"}
	const hour = 1_700_002_800_000
	put, b := create(hour, Costs([]bucket.Limit{quota}, 3000))
	quota.Reset = "m0@UTC"
	plan := Charge{Image: b, Costs: Costs([]bucket.Limit{quota}, 1000), Now: hour + 2000}.Plan()
	after := applied(t, plan.Update, put.Item)
	got := decode(t, after)
	if sl := got.State.Slots[got.State.Index("q")]; sl.End != hour+3_600_000 ||
		put.Item["b_q_ws"] == nil || after["b_q_ws"] != nil || after["b_q_wa"] != nil {
		t.Errorf("%+v, %v", sl, after)
	}
}

// Six limits of mixed kinds (three rates, a calendar, money and a first-use quota) fit into one
// write unit with realistic numbers and a 40-character entity id. Eight do not, as
// docs/budgets-and-quotas.md says.
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
	if more != 1098 {
		t.Errorf("8 limits of mixed kinds are %d bytes, want 1098: two write units", more)
	}
}
