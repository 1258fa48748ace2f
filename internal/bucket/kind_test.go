package bucket

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A billion settlements of a third of a cent, 3,333 millionths of a dollar, add up to exactly
// $3,333,000. In millitokens, that is far below what 64 bits hold.
func TestABillionSettlementsAddUp(t *testing.T) {
	const dollar, third, n = 1_000_000 * Milli, 3_333 * Milli, 1_000_000
	budget := Limit{Name: "budget", Capacity: 4_000_000 * dollar, Period: QuotaPeriod, Reset: "m0h0D1@UTC"}
	s, i := alone(budget, 1_700_000_000_000)
	costs := make([]int64, len(s.Slots))
	for _, at := range []int64{1, 999} { // a million one by one, the rest in steps of 999
		costs[i] = at * third
		for range n {
			s = s.Take(costs)
		}
	}
	if left, used := s.Slots[i].Tokens, s.Slots[i].Used; left != 667_000*dollar || used != 3_333_000*dollar {
		t.Errorf("%d left and %d spent", left, used)
	}
}

// In the second after the edge of a calendar quota, a state is stored as of the instant before the
// edge, because the period goes on for that second. No other end moves the instant back.
func TestStatesAreStoredBeforeAnEdge(t *testing.T) {
	const edge = 1_700_006_400_000
	hours := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h*/2@UTC"}
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	fly := Limit{Name: "q", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	rate := Limit{Name: "q", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 1000}
	for _, c := range []struct {
		name  string
		limit Limit
		rf    int64
		want  int64
	}{
		{"before it", hours, edge - 1, edge - 1},
		{"at it", hours, edge, edge - 1},
		{"in the second behind it", hours, edge + 999, edge - 1},
		{"a quota from the first use", first, edge + 500, edge + 500},
		{"slots", fly, edge + 500, edge + 500},
		{"a rate", rate, edge + 500, edge + 500},
	} {
		s, i := alone(c.limit, edge-10)
		if s.RF = c.rf; c.limit.InFlight || c.limit.FirstUse() > 0 {
			s.Slots[i].End = edge
		}
		got := s.Stored()
		check.Equal(t, got.RF, c.want, "%s: stored for an instant, the edge is %d", c.name, edge)
	}
}

// A calendar quota keeps its level until a second after its edge. Then it is full, top-ups have
// expired, and the next period has begun.
func TestCalendarQuotasRefillAtTheirEdge(t *testing.T) {
	const edge = 1_700_006_400_000 // of two hours
	s, i := alone(Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h*/2@UTC"}, edge-5000)
	s.Slots[i].Tokens, s.Slots[i].Extra = 12*Milli, 5*Milli
	for at, want := range map[int64]Slot{
		edge - 1:              {Tokens: 12 * Milli, Extra: 5 * Milli, End: edge},
		edge + EdgeMargin - 1: {Tokens: 12 * Milli, Extra: 5 * Milli, End: edge},
		edge + EdgeMargin:     {Tokens: 10 * Milli, End: edge + 7_200_000},
	} {
		got := s.At(at).Slots[i]
		if got.Tokens != want.Tokens || got.Extra != want.Extra || got.End != want.End {
			t.Errorf("%d ms after the edge: %d with %d extra until %d, want %+v", at-edge, got.Tokens, got.Extra, got.End, want)
		}
	}
	r := Rate{Capacity: 100, Edge: 50}
	for elapsed, want := range map[int64]int64{0: 0, 49: 0, 50: 97, 51: 97} {
		check.Equal(t, r.atEdge(3, elapsed).Credit, want, "3 of 100 gain after %d ms", elapsed)
	}
	check.Equal(t, r.atEdge(120, 50).Credit, -20, "120 of 100 gain at the edge")
}

// Only a cost of its own limit begins a first-use period.
func TestAPeriodBeginsWithItsFirstUse(t *testing.T) {
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	rate := Limit{Name: "r", Capacity: 10 * Milli, Amount: Milli, Period: 1000}
	s := New([]Limit{first, rate}, 0, 1, 5000)
	begun := s.At(5000)
	begun.Slots[begun.Index("q")].End = 9000
	for _, c := range []struct {
		state    State
		cost     int64
		end      int64
		rateCost int64
	}{{s, 0, 0, 0}, {s, 0, 0, 1}, {s, 1, 3_605_000, 0}, {begun, 1, 9000, 1}} {
		costs := make([]int64, len(s.Slots))
		costs[s.Index("q")], costs[s.Index("r")] = c.cost, c.rateCost
		got := c.state.Begin(costs)
		if q, r := got.Slots[s.Index("q")].End, got.Slots[s.Index("r")].End; q != c.end || r != 0 {
			t.Errorf("costs of %d and %d: the period ends at %d, want %d; of the rate at %d", c.cost, c.rateCost, q, c.end, r)
		}
	}
	check.Equal(t, s.Slots[s.Index("q")].End, 0, "the receiver was modified")
}

// After the edge of a quota, a rate in the same bucket is stored with its level just before the
// edge: at 10 per second, a level of 4 half a second after the edge is stored as -1 and a
// millitoken less.
func TestARateIsStoredBeforeTheEdgeOfAQuota(t *testing.T) {
	const edge = 1_700_006_400_000
	limits := []Limit{{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "m0h*/2@UTC"},
		{Name: "r", Capacity: 10 * Milli, Amount: 10 * Milli, Period: 1000}}
	s := New(limits, 0, 1, edge-10)
	s.RF = edge + 500
	i := s.Index("r")
	s.Slots[i].Tokens, s.Slots[i].Rest = 4000, 0
	got := s.Stored()
	if sl := got.Slots[i]; got.RF != edge-1 || sl.Tokens != -1010 || sl.Rest != 0 {
		t.Errorf("%+v at %d after the edge", sl, got.RF-edge)
	}
	if level, rest := got.LevelAt(i, edge+500); level != 4000 || rest != 0 {
		t.Errorf("from there it has %d and %d at the same instant", level, rest)
	}
}

// Suppose a process with other zone data ended a period an hour from our edge. Then our edge begins
// no new period, and the next one ends at our edge a day later.
func TestEdgesOfOtherZoneDataBeginOnePeriod(t *testing.T) {
	const day = 24 * 3600_000
	noon := int64(1_700_049_600_000) // 12:00 UTC
	for _, reset := range []string{"m0h11@UTC", "m0h13@UTC"} {
		sl := Slot{Limit: Limit{Name: "q", Capacity: 10, Period: QuotaPeriod, Reset: reset}, End: noon, Extra: 3}
		sl.enter(noon + EdgeMargin)
		hour := int64(-3600_000)
		if reset == "m0h13@UTC" {
			hour = -hour
		}
		if sl.End != noon+hour+day || sl.Extra != 0 {
			t.Errorf("%s: ends %d h after it, %d extra", reset, (sl.End-noon)/3600_000, sl.Extra)
		}
	}
	sl := Slot{Limit: Limit{Name: "q", Capacity: 10, Period: QuotaPeriod, Reset: "m0h12@UTC"}, End: noon}
	if sl.enter(noon + EdgeMargin); sl.End != noon+day {
		t.Errorf("of the same data: ends %d h after it", (sl.End-noon)/3600_000)
	}
}

// A quota is full again when its period ends: at the stored end, or else at the calendar's, or one
// period from now for a first-use quota.
func TestQuotasAreFullWhenTheirPeriodEnds(t *testing.T) {
	const edge = 1_700_006_400_000
	hours := Limit{Name: "q", Capacity: 10, Period: QuotaPeriod, Reset: "m0h*/2@UTC"}
	first := Limit{Name: "q", Capacity: 10, Period: QuotaPeriod, Reset: "+3600"}
	for _, c := range []struct {
		limit     Limit
		end, want int64
	}{
		{hours, 0, 500 + EdgeMargin}, {hours, edge + 100, 600 + EdgeMargin},
		{first, 0, 3_600_000 + EdgeMargin}, {first, edge + 100, 600 + EdgeMargin},
	} {
		check.Equal(t, c.limit.WholeAt(edge-500, c.end).Edge, c.want, "%v until %d: whole after ms", c.limit, c.end)
	}
}

// If a limit becomes a quota, or its calendar changes, a new period begins. If only the amount
// changes, the period stays. Spent tokens stay spent.
func TestLimitsBecomeQuotas(t *testing.T) {
	daily := Limit{Name: "rpd", Capacity: 10_000, Period: QuotaPeriod, Reset: "m0h0@UTC"}
	hourly, larger := daily, daily
	hourly.Reset, larger.Capacity = "m0@UTC", 15_000
	rate := Limit{Name: "rpd", Capacity: 10_000, Amount: 10_000, Period: 1000}
	const noon = int64(1_700_049_600_000) // 12:00 UTC
	const midnight = noon + 12*3_600_000
	for _, c := range []struct {
		name   string
		was    Slot
		want   Limit
		to     int64 // the share's capacity afterwards
		tokens int64
		end    int64
	}{
		{"a larger amount", Slot{Limit: daily, Tokens: 4000, End: midnight, Rest: 5}, larger, 15_000, 9000, midnight},
		{"another calendar", Slot{Limit: daily, Tokens: 4000, End: midnight}, hourly, 10_000, 4000, noon + 3_600_000},
		{"a rate", Slot{Limit: rate, Tokens: 4000, Rest: 5}, daily, 10_000, 4000, midnight},
		{"a rate above its capacity", Slot{Limit: rate, Tokens: 14_000}, daily, 10_000, 10_000, midnight},
		{"with credits above", Slot{Limit: daily, Tokens: 14_000, Extra: 4000, End: midnight}, larger, 15_000, 19_000,
			midnight},
	} {
		sl := c.was
		sl.become(c.want, c.was.Capacity, c.to, noon+60_000)
		if sl.Tokens != c.tokens || sl.End != c.end || sl.Limit != c.want || sl.Rest != 0 {
			t.Errorf("%s: %d tokens until %d, want %d until %d", c.name, sl.Tokens, sl.End, c.tokens, c.end)
		}
	}
}

// RateOf returns how a limit refills on a shard. A rate has its share of capacity and amount. A
// quota refills at its edge. Slots are all on shard 0 and refill after at most two epochs. It also
// works for a limit that the shard lacks, or has with another calendar.
func TestRateOf(t *testing.T) {
	const edge = 1_700_006_400_000                                                    // of every two hours
	hours := Limit{Name: "a", Capacity: 10, Period: QuotaPeriod, Reset: "m0h*/2@UTC"} // the first of all
	days, other := hours, hours
	days.Reset, other.Name = "m0h1@UTC", "other"
	fly := Limit{Name: "fly", Capacity: 6, Period: 30_000, InFlight: true}
	gone := fly
	gone.Name = "gone"
	rate := Limit{Name: "r", Capacity: 10, Amount: 4, Period: 1000}
	s := New([]Limit{hours, fly, rate}, 0, 1, edge-5000)
	s.Slots[s.Index("a")].End = edge + 100 // as a process with other zone data stored it
	whole := WCULimit()
	for _, c := range []struct {
		limit       Limit
		shard, many int
		want        Rate
	}{
		{rate, 0, 1, Rate{Capacity: 10, Amount: 4, Period: 1000}},
		{rate, 1, 2, Rate{Capacity: 5, Amount: 2, Period: 1000}},
		{hours, 0, 1, Rate{Capacity: 10, Period: QuotaPeriod, Edge: 5100 + EdgeMargin}},
		{hours, 1, 2, Rate{Capacity: 5, Period: QuotaPeriod, Edge: 5100 + EdgeMargin}},
		{other, 0, 1, Rate{Capacity: 10, Period: QuotaPeriod, Edge: 5000 + EdgeMargin}},
		{days, 0, 1, Rate{Capacity: 10, Period: QuotaPeriod, Edge: 3600_000 + 5000 + EdgeMargin}},
		{fly, 0, 1, Rate{Capacity: 6, Period: 30_000, Edge: 60_000}},
		{gone, 0, 2, Rate{Capacity: 6, Period: 30_000, Edge: 60_000}},
		{fly, 1, 2, Rate{Period: 30_000, Edge: 60_000}},
		{whole, 1, 2, Rate{Capacity: whole.Capacity, Amount: whole.Amount, Period: whole.Period}},
	} {
		s.Shard, s.Shards = c.shard, c.many
		check.Equal(t, s.RateOf(c.limit), c.want, "%v on shard %d of %d", c.limit, c.shard, c.many)
		check.Equal(t, s.CapacityOf(c.limit), c.want.Capacity,
			"%v on shard %d of %d: a capacity of", c.limit, c.shard, c.many)
		if i := s.Index(c.limit.Name); i >= 0 && s.Slots[i].Limit == c.limit && s.Rate(i) != c.want {
			t.Errorf("%v on shard %d of %d: %+v by its slot", c.limit, c.shard, c.many, s.Rate(i))
		}
	}
}

// A quota with an unreadable calendar, perhaps a newer client's, has no edge. Its period never
// ends, and its state is stored unchanged.
func TestUnreadableCalendarsHaveNoEdge(t *testing.T) {
	odd := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "every blue moon"}
	s, i := one(odd, 5000, 3)
	if r := s.Rate(i); r.Edge != Never || odd.FirstUse() != 0 || odd.Next(5000) != 0 {
		t.Errorf("its edge is after %d ms", r.Edge)
	}
	if got := s.Stored(); got.RF != 5000 {
		t.Errorf("it is stored for %d", got.RF)
	}
	if got := s.At(1e15).Slots[i]; got.Tokens != 3 || got.End != 0 {
		t.Errorf("much later it is %+v", got)
	}
}

// A quota covers its present level, even above its capacity. Any other amount that fits is covered
// at its edge.
func TestQuotasWaitForTheirEdge(t *testing.T) {
	r := Rate{Capacity: 100, Period: QuotaPeriod, Edge: 50}
	for _, c := range []struct{ tokens, need, want int64 }{
		{40, 40, 0}, {40, 41, 50}, {40, 100, 50}, {40, 101, Never}, {120, 120, 0}, {120, 121, Never}, {-1, 0, 50},
	} {
		check.Equal(t, Wait(c.tokens, 0, r, c.need), c.want, "%d of 100, %d wanted: ms to wait", c.tokens, c.need)
	}
}

// If a broken clock began a first-use period in the future, it ends at most one period from now.
// The same holds if the clock of the state was repaired. A sound period stays.
func TestPeriodsOfBrokenClocksAreShortened(t *testing.T) {
	const now, hour = 1_700_000_000_000, 3_600_000
	first := Limit{Name: "q", Capacity: 10 * Milli, Period: QuotaPeriod, Reset: "+3600"}
	for _, c := range []struct {
		name    string
		end, rf int64
		want    int64
	}{
		{"sound", now + hour - 5, now - 5, now + hour - 5},
		{"by a clock slightly ahead", now + hour + MaxSkew, now, now + hour + MaxSkew},
		{"by a broken clock", now + hour + MaxSkew + 1, now, now + hour},
		{"by a broken clock, repaired", now + hour + 50, now + MaxSkew + 1, now + hour},
		{"mended, and earlier", now + 50, now + MaxSkew + 1, now + 50},
	} {
		s, i := alone(first, c.rf)
		s.Slots[i].End, s.Slots[i].Tokens = c.end, 3
		if got := s.At(now).Slots[i]; got.End != c.want || got.Tokens != 3 {
			t.Errorf("%s: it ends %d ms from now with %d, want %d", c.name, got.End-now, got.Tokens, c.want-now)
		}
	}
}

// Quotas do not refill, so their held tokens need no room: a split of a topped-up quota loses
// nothing.
func TestSplitsLoseNoHeldQuota(t *testing.T) {
	q := Limit{Name: "q", Capacity: 100_000, Period: QuotaPeriod, Reset: "m0h0@UTC"}
	s := New([]Limit{q}, 0, 1, 1_700_000_000_000)
	sl := &s.Slots[s.Index("q")]
	sl.Tokens, sl.Extra, sl.Held, s.HeldUntil = 110_000, 50_000, 40_000, s.RF+500
	keep, moved := s.Split()
	k, m := keep.Slots[keep.Index("q")], moved.Slots[moved.Index("q")]
	if k.Tokens+m.Tokens != 110_000 || k.Held+m.Held != 40_000 {
		t.Errorf("110 tokens and 40 held ones split into %+v and %+v", k, m)
	}
}
