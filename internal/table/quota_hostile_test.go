package table

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// marginLimits are a quota and two rates, one of which fills up in less than a second.
var marginLimits = []bucket.Limit{
	{Name: "fast", Capacity: 3 * bucket.Milli, Amount: 7 * bucket.Milli, Period: 1300},
	newQuota("q", 500*bucket.Milli, "m*/2@UTC"),
	{Name: "slow", Capacity: 40 * bucket.Milli, Amount: 3 * bucket.Milli, Period: 7001},
}

// around returns an instant near an edge, and after another instant.
func around(r *rand.Rand, now int64) int64 {
	switch edge := (now/periodMs + 1) * periodMs; {
	case r.IntN(12) == 0:
		return now + r.Int64N(3*periodMs)
	case edge-now > 3000 && now%periodMs > 3000:
		return edge - r.Int64N(2000)
	default:
		return now + r.Int64N(400)
	}
}

// One process charges, refills, gives back and adds at random around edges. The rates equal a naive
// computation without edges: a rational level that refills by the true time. Denials are exact to
// the millisecond.
func TestRatesRefillAcrossEdges(t *testing.T) {
	granted, inMargin, told := 0, 0, 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 20))
		now := theEdge + r.Int64N(periodMs)
		put, b := create(now, Costs(marginLimits))
		it, at := item.Item(put.Item), now
		naive := map[string]*big.Rat{"fast": buckettest.Milli(3000), "slow": buckettest.Milli(40_000)}
		refill := func(to int64) {
			for name, l := range naive {
				i := b.State.Index(name)
				naive[name] = buckettest.Exact{Level: l, Rate: b.State.Rate(i)}.After(to - at).Level
			}
			at = to
		}
		for range 300 {
			now = around(r, now)
			refill(now)
			costs := Costs(marginLimits, r.Int64N(3)*bucket.Milli, r.Int64N(2)*bucket.Milli, r.Int64N(4)*bucket.Milli)
			c := Charge{Image: b, Costs: costs, Now: now, Refill: r.IntN(6) == 0, Force: r.IntN(9) == 0}
			plan := c.Plan()
			if v := plan.Verdict; !v.Granted {
				told++
				for _, off := range []int64{-1, 0} { // of the slowest limit
					is := (Charge{Image: b, Costs: costs, Now: v.At + off}).Plan().Verdict.Granted
					if is != (off == 0) {
						t.Fatalf("seed %d at %d: advised to come at %d by %s, %d ms from then: granted is %t",
							seed, now, v.At, plan.Short, off, is)
					}
				}
				if !c.Force {
					continue
				}
			}
			if it = applied(t, plan.Update, it); !c.Refill {
				for _, cost := range costs {
					if l := naive[cost.Limit.Name]; l != nil {
						naive[cost.Limit.Name] = new(big.Rat).Sub(l, buckettest.Milli(cost.Milli))
					}
				}
				granted++
			}
			b = decode(t, it)
			if b.State.RF%periodMs == periodMs-1 && now > b.State.RF {
				inMargin++
			}
			for name, want := range naive {
				i := b.State.Index(name)
				tokens, rest := b.State.LevelAt(i, now)
				if got := buckettest.NewExact(tokens, rest, b.State.Rate(i)).Level; got.Cmp(want) != 0 {
					t.Fatalf("seed %d at %d: %s holds %s, want %s: %s", seed, now, name, got.FloatString(6),
						want.FloatString(6), b.State)
				}
			}
			if r.IntN(20) == 0 {
				it, b = splitAndMerge(t, it, b, now)
			}
		}
	}
	if granted < 1000 || inMargin < 300 || told < 150 {
		t.Errorf("%d granted, %d writes behind an edge, %d denials, want more", granted, inMargin, told)
	}
}

// splitAndMerge splits a bucket and merges it again, without loss.
func splitAndMerge(t *testing.T, it item.Item, b Shard, now int64) (item.Item, Shard) {
	t.Helper()
	whole := b.State.At(now)
	writes := Split(b, now)
	it = applied(t, writes[0], it)
	merged := Merge(decode(t, it), decode(t, writes[1].(item.Put).Item), 1, now)
	it = applied(t, merged[1], it)
	b = decode(t, it)
	for i, sl := range b.State.At(now).Slots {
		want := whole.Slots[i]
		if sl.Name != bucket.WCU && (sl.Tokens != want.Tokens || sl.Rest != want.Rest || sl.End != want.End) {
			t.Fatalf("split and merged at %d: %+v, want %+v", now, sl, want)
		}
	}
	return it, b
}

// A first-use period is over, and the next one is not yet used. Tokens given back in between expire
// with the finished period: a write that takes nothing, planned from an earlier image, finds
// exactly a full quota.
func TestGiveBacksEndWithTheirPeriod(t *testing.T) {
	const start = theEdge
	try := newQuota("try", 10*bucket.Milli, "+60")
	_, b := create(start, Costs([]bucket.Limit{try}, 9000))
	late := Costs([]bucket.Limit{try}, -8000)
	late[0].End = start + 60_000
	it := applied(t, Adjust(b.Key(), late), b.Item())
	idle := Charge{Image: b, Costs: Costs([]bucket.Limit{try}), Now: start + 62_000}
	after, held, err := idle.Plan().Update.Apply(it)
	check.Must(t, err)
	is := decode(t, after)
	if sl := is.State.Slots[0]; sl.Tokens > 10_000 {
		t.Errorf("held %v: %d of 10 tokens", held, sl.Tokens/1000)
	}
	check.Equal(t, is.State.At(start + 63_000).Slots[0].Tokens, 10_000, "held %v: in the next period", held)
}

// shardWith returns a bucket with a quota of 10 that one client created and another changed.
func shardWith(t *testing.T, calendar string, now int64, change item.Item) item.Item {
	t.Helper()
	limits := []bucket.Limit{newQuota("q", 10_000, calendar)}
	put, _ := create(now, Costs(limits, 4_000))
	for attr, v := range change {
		if put.Item[attr] = v; v == nil {
			delete(put.Item, attr)
		}
	}
	return put.Item
}

func chargeOf(t *testing.T, it item.Item, milli, now int64) (after item.Item, granted bool) {
	t.Helper()
	b := decode(t, it)
	plan := Charge{Image: b, Costs: Costs(b.State.Limits(), milli), Now: now}.Plan()
	if !plan.Verdict.Granted {
		return it, false
	}
	return applied(t, plan.Update, it), true
}

const noon = 1_800_014_400_000 // 2027-01-15 12:00 UTC

// An end that no zone data can explain does not block a quota forever.
func TestImpossibleEndsDoNotBlockAQuota(t *testing.T) {
	const tomorrow = noon + 12*3_600_000 + 2_000
	for name, until := range map[string]int64{"ages away": 1<<63 - 1, "in microseconds": noon * 1000, "negative": -5} {
		it := shardWith(t, "m0h0@UTC", noon, item.Item{"vu": item.N(until)})
		it, ok := chargeOf(t, it, 6_000, noon+1000)
		check.Equal(t, ok, true, "%s: existing tokens are granted", name)
		_, ok = chargeOf(t, it, 1_000, noon+2000)
		check.Equal(t, ok, false, "%s: more are granted", name)
		_, ok = chargeOf(t, it, 10_000, tomorrow)
		check.Equal(t, ok, true, "%s: it is whole the day after", name)
	}
}

// A quota that we do not support makes its item unreadable, and the error says why: an invalid or
// missing calendar, or a schedule of a Python client. Attributes of rates are harmless.
func TestUnsupportedQuotasAreUnreadable(t *testing.T) {
	none := `attribute "b_q_ra" is 0, want 1 to `
	scheduled := `: the schedule of limit "q": `
	for name, c := range map[string]struct {
		change item.Item
		want   string // the error; empty: readable
	}{
		"as created":                  {item.Item{}, ""},
		"an invalid calendar":         {item.Item{"b_q_rsched": item.S("1x")}, `attribute "b_q_rsched": `},
		"no calendar":                 {item.Item{"b_q_rsched": nil}, none},
		"a calendar that is a number": {item.Item{"b_q_rsched": item.N(5)}, none},
		"an excluded calendar":        {item.Item{"b_q_rsched": item.S("-"), "rsched": item.S("1m0h0")}, none},
		"the calendar of the item":    {item.Item{"b_q_rsched": nil, "rsched": item.S("1m0h0")}, ""},
		"a schedule":                  {item.Item{"b_q_sched": item.S("x")}, scheduled},
		"a schedule of the item":      {item.Item{"sched": item.S("x")}, scheduled},
		"a schedule of a quota":       {item.Item{"b_q_sched": item.S("1s500")}, ` is a quota with the schedule "1s500"`},
		"an invalid vu":               {item.Item{"vu": item.S("x")}, `attribute "vu"`},
		"another period than ours":    {item.Item{"b_q_rp": item.N(60_000)}, ""},
		"a negative top-up":           {item.Item{"b_q_tu": item.N(-5)}, ""},
		"a negative number of resets": {item.Item{"b_q_rn": item.N(-5)}, ""},
	} {
		b, err := DecodeShard(shardWith(t, "m0h0@UTC", noon, c.change))
		check.Says(t, err, c.want, name)
		if err != nil {
			continue
		}
		if sl := b.State.Slots[b.State.Index("q")]; sl.Period != bucket.QuotaPeriod || sl.Reset != "m0h0@UTC" ||
			sl.Extra != 0 || sl.Resets != 0 || sl.Tokens != 6_000 {
			t.Errorf("%s: %+v", name, sl)
		}
	}
}

// A period of a first use whose end does not fit 64 bits makes the item unreadable: its error
// names the repair. No charge could require the stored start, and so none would ever hold.
func TestPeriodsThatEndBeyond64BitsAreUnreadable(t *testing.T) {
	const last = math.MaxInt64 - 3_600_000
	for start, want := range map[int64]error{
		last: nil, last + 1: ErrUnreadable, math.MaxInt64: ErrUnreadable,
	} {
		it := shardWith(t, "+3600", noon, item.Item{"b_q_ws": item.N(start), "b_q_wa": item.N(start)})
		b, err := DecodeShard(it)
		check.Is(t, err, want, "start %d", start)
		if err == nil {
			applied(t, Charge{Image: b, Now: noon}.Plan().Update, it)
		}
	}
}

// A quota decoded alone, as from a stream record, equals the one decoded with its item: for both
// kinds, within a period or before its first use, with top-ups.
func TestQuotasDecodeAloneAsWithTheirItem(t *testing.T) {
	for name, c := range map[string]struct {
		calendar string
		change   item.Item
	}{
		"by the calendar":       {"m0h0@UTC", item.Item{"b_q_tu": item.N(3_000)}},
		"until another instant": {"m0h0@UTC", item.Item{"vu": item.N(noon + 9_000_000)}},
		"without a known end":   {"m0h0@UTC", item.Item{"vu": item.N(0)}},
		"without an end":        {"m0h0@UTC", item.Item{"vu": nil}},
		"from the first use":    {"+3600", item.Item{}},
		"waiting for it":        {"+3600", item.Item{"b_q_ws": nil, "b_q_wa": nil, "vu": item.N(0)}},
		"begun by another": {"+3600",
			item.Item{"b_q_ws": item.N(noon + 1000), "b_q_wtc": item.N(1000)}},
		"begun, without the applied period": {"+3600", item.Item{"b_q_wa": nil}},
		"of another zone":                   {"m0h0@Europe/Berlin", item.Item{}},
		"raised":                            {"m0h0@UTC", item.Item{"b_q_more": item.S("7:1999999999999")}},
		"no longer raised":                  {"m0h0@UTC", item.Item{"b_q_more": item.S("7:1999")}},
	} {
		it := shardWith(t, c.calendar, noon, c.change)
		whole, err := DecodeShard(it)
		check.Must(t, err, "%v", name)
		want := whole.State.Slots[whole.State.Index("q")]
		of := item.Item{} // the attributes of the item that a stream record keeps
		for attr, v := range it {
			rest, _ := strings.CutPrefix(attr, "b_q_")
			if OfQuotas([]byte(attr)) || rest != attr && OfQuotas([]byte(rest)) {
				of[attr] = v
			}
		}
		got := bucket.Slot{Limit: bucket.Limit{Name: "q", Capacity: want.Own().Capacity}, Tokens: 6_000, Used: want.Used}
		calendars := CalendarsOf(of)
		if err := calendars.Complete(&got, of, whole.State.RF, nil); err != nil || got != want ||
			calendars != whole.Calendars {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	it := shardWith(t, "m0h0@UTC", noon, nil)
	sl := bucket.Slot{Limit: bucket.Limit{Name: "q", Capacity: 10_000}}
	for end, counts := range map[int64]bool{noon + 5000: true, noon: false} {
		ends := item.Map(item.Item{"q": item.N(end)})
		if err := CalendarsOf(it).Complete(&sl, it, noon, ends); err != nil || (sl.End == end) != counts {
			t.Errorf("with its own end, %d: %+v, %v", end, sl, err)
		}
	}
	more := shardWith(t, "m0h0@UTC", noon, item.Item{"b_q_more": item.S(fmt.Sprintf("7:%d", noon+5000))})
	for end, want := range map[int64]int64{noon + 5000: 17_000, noon + 5001: 10_000} { // its own end counts, not ours
		sl := bucket.Slot{Limit: bucket.Limit{Name: "q", Capacity: 10_000}}
		err := CalendarsOf(more).Complete(&sl, more, noon, item.Map(item.Item{"q": item.N(end)}))
		check.Must(t, err, "raised, with its own end: %+v", sl)
		check.Equal(t, sl.Capacity, want, "raised, with its own end: %+v", sl)
	}
	invalid := item.Map(item.Item{"q": item.S("x")})
	check.Says(t, CalendarsOf(it).Complete(&sl, it, noon, invalid), "q", "an invalid end")
	check.Equal(t, CalendarsOf(item.Item{"vu": item.S("x")}), Calendars{Has: true}, "an invalid vu")
}

// Only quotas have these attributes of items and limits.
func TestAttributesOfQuotas(t *testing.T) {
	for attr := range strings.FieldsSeq(
		"vu sched_tz rsched sched tu b_q_rsched b_q_sched b_q_tu b_q_rsa b_q_ws b_q_wa b_q_wtc b_q_more") {
		check.Equal(t, OfQuotas([]byte(attr)), true, attr)
	}
	for attr := range strings.FieldsSeq("b_q_tk b_q_tc b_q_ra rf tz b_vu_tk b_q_") {
		check.Equal(t, OfQuotas([]byte(attr)), false, attr)
	}
}
