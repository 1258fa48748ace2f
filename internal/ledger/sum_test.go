package ledger

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Each stored sum has a higher version than the one before, also if another aggregator wrote that.
func TestVersionsOfSumsIncrease(t *testing.T) {
	stored := item.Item(nil)
	for _, c := range []struct{ own, want int64 }{{1, 1}, {1, 2}, {9, 9}, {4, 10}, {11, 11}} {
		s := &Sum{Place: day, Amount: Amount{Tokens: map[string]int64{"rpm": c.want}}, Summed: Summed{Version: c.own}}
		if stored = summed(t, s, stored); SummedOf(stored).Version != c.want {
			t.Errorf("version %d, want %d", SummedOf(stored).Version, c.want)
		}
	}
}

// Other values in a sum's attribute do not make an item a sum.
func TestForeignSumsAreRefused(t *testing.T) {
	for text, want := range map[string]bool{`{"Version":3,"Parts":[1]}`: true, `{"Version":3,"Parts":"x"}`: false,
		`{"Version":3`: false, "": false, "7": false} {
		if got := IsSum(item.Item{attrSum: item.B([]byte(text))}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if IsSum(item.Item{attrSum: item.S(`{"Version":3}`)}) || IsSum(nil) {
		t.Error("an attribute other than bytes is a sum")
	}
}

// The sum of a month lists every limit, and a client may name another one with each request.
func TestSumsOfManyLimitsKeepTheirBase(t *testing.T) {
	stored, base := item.Item(nil), &Amount{Tokens: map[string]int64{}}
	for len(base.Tokens) < 5000 {
		for range 200 {
			base.Tokens[fmt.Sprint("tokens-of-user-", len(base.Tokens))] = 1
		}
		stored = summed(t, &Sum{Place: day, Summed: Summed{Version: 1, Base: base}}, stored)
	}
	check.NoError(t, item.ValidateItem(stored))
	check.Deep(t, SummedOf(stored).Base, base, "base")
}

// A sum adds its parts to its base, for every limit. A limit without tokens is zero.
func TestSumsKeepTheirBase(t *testing.T) {
	stored := item.Item(nil)
	for _, c := range []struct {
		base   *Amount
		tokens map[string]int64
		events int64
	}{
		{nil, map[string]int64{"rpm": 5}, 2},
		{&Amount{map[string]int64{"rpm": 3, "tpm": 7}, 4}, map[string]int64{"rpm": 8, "tpm": 7}, 6},
		{&Amount{map[string]int64{"tpm": 1}, 0}, map[string]int64{"rpm": 5, "tpm": 1}, 2},
		{nil, map[string]int64{"rpm": 5, "tpm": 0}, 2},
	} {
		s := &Sum{Place: day, Amount: Amount{map[string]int64{"rpm": 5}, 2}, Summed: Summed{Version: 1, Base: c.base}}
		stored = summed(t, s, stored)
		if got := AmountOf(stored); got.Events != c.events || !maps.Equal(got.Tokens, c.tokens) {
			t.Errorf("with %+v: %+v, want %v, %d", c.base, got, c.tokens, c.events)
		}
	}
}

// Amounts saturate at 64 bits wherever they are added.
func TestAmountsSaturate(t *testing.T) {
	most := Amount{Tokens: map[string]int64{"bytes": math.MaxInt64}, Events: math.MaxInt64}
	half := Amount{Tokens: map[string]int64{"bytes": 1 << 62}, Events: 1 << 62}
	var sum Amount
	for range 3 {
		sum.Add(half)
	}
	check.Deep(t, sum, most, "three times 2^62")
	sum.Sub(half)
	sum.Sub(half)
	sum.Sub(half)
	if sum.Tokens["bytes"] != -1-1<<62 || sum.Events != -1-1<<62 {
		t.Errorf("less three times 2^62: %+v", sum)
	}
	sum.Sub(half)
	if sum.Sub(half); sum.Tokens["bytes"] != math.MinInt64 || sum.Events != math.MinInt64 {
		t.Errorf("less five times 2^62: %+v", sum)
	}
	stored := item.Item{attrTotalEvents: item.N(3)}
	stored[attrCount("bytes")] = &types.AttributeValueMemberN{Value: "9223372036854775808"}
	if got := AmountOf(stored); got.Tokens["bytes"] != math.MaxInt64 || got.Events != 3 {
		t.Errorf("2^63 are read as %+v", got)
	}
	s := &Sum{Place: day, Amount: half, Summed: Summed{Version: 1, Base: &half}}
	after := summed(t, s, nil)
	check.Deep(t, AmountOf(after), most, "the sum of a day")
	if got, err := DecodeSnapshot(after); err != nil || got.Counts["bytes"] != math.MaxInt64 {
		t.Errorf("read as %+v, %v", got, err)
	}
	after[attrCount("bytes")] = stored[attrCount("bytes")]
	if got, err := DecodeSnapshot(after); err != nil || got.Counts["bytes"] != math.MaxInt64 {
		t.Errorf("2^63 read as %+v, %v", got, err)
	}
}

// A sum replaces only what was read. It is refused after any change since: another sum, counts that
// an earlier release added, or a created or removed snapshot. It removes the marks that it
// replaces.
func TestSumsReplaceOnlyWhatTheyRead(t *testing.T) {
	sum := func(rpm, version int64) *Sum {
		return &Sum{Place: day, Amount: Amount{Tokens: map[string]int64{"rpm": rpm}, Events: 7},
			Summed: Summed{Version: version}}
	}
	by := func(events int64, it item.Item) item.Item { // like an earlier release
		marks := MarksOf(it)
		mark := Mark{At: PositionOf(1, "7"), Used: []Count{{"rpm", 9}}, Gen: 3}
		if old, ok := marks.Shard(0); ok {
			mark.At, mark.Used = PositionOf(1, "8"), []Count{{"rpm", old.Used[0].Tokens + 3}}
		}
		return applied(t, Usage{Place: day, Counts: []Count{{"rpm", 3}}, Events: events, Seen: &marks,
			Moves: []Move{{To: mark}}}.Update(), it)
	}
	added := func(it item.Item) item.Item { return by(1, it) }
	next := func(it item.Item) item.Item { return summed(t, sum(100, 1), it) }
	first := next(nil)
	u, _ := sum(101, 2).Update(first)
	other := applied(t, u, first)
	counted := added(nil)
	for name, c := range map[string]struct{ read, now item.Item }{
		"there is one":              {nil, first},
		"it is gone":                {first, nil},
		"another sum":               {first, other},
		"added to a sum":            {first, added(first)},
		"added without a record":    {first, by(0, first)},
		"added to a sum once more":  {added(first), added(added(first))},
		"added to what was counted": {counted, added(counted)},
		"counted was summed":        {counted, next(counted)},
		"added was summed":          {added(first), next(added(first))},
	} {
		u, due := sum(103, 3).Update(c.read)
		if !due {
			t.Errorf("%s: not due", name)
		}
		if _, held, err := u.Apply(c.now); held || err != nil {
			t.Errorf("%s: stored, %v", name, err)
		}
		after := applied(t, u, c.read)
		if MarksOf(after).Any || len(marksIn(after)) > 0 || AmountOf(after).Tokens["rpm"] != 103 {
			t.Errorf("%s: %v", name, after)
		}
	}
	if u, due := sum(100, 1).Update(first); due {
		t.Errorf("a stored sum is written again: %+v", u)
	}
	for _, events := range []int64{0, 1} {
		if _, due := sum(103, 3).Update(by(events, first)); !due {
			t.Errorf("marks that add up to the sum stay, with %d records", events)
		}
	}
}

// The Python aggregator counts a day under the key of midnight. Such a day is removed from the days
// once its hours have all of its tokens. Our hours, months, and days with more tokens stay.
func TestDaysOfOthersAreReplaced(t *testing.T) {
	day := func(change func(it item.Item)) item.Item {
		it := layout.UsageKey("ns", "acme", "gpt", "2023-11-14T00:00:00Z").Item()
		it["window"], it["rpm"], it["resource"] = item.S("daily"), item.N(10), item.S("gpt")
		change(it)
		return it
	}
	hours := Amount{Tokens: map[string]int64{"rpm": 15}}
	for name, c := range map[string]struct {
		it  item.Item
		due bool
	}{
		"a day":               {day(func(item.Item) {}), true},
		"replaced already":    {day(func(it item.Item) { it["window"] = item.S(Replaced) }), false},
		"an hour":             {day(func(it item.Item) { it["window"] = item.S("hourly") }), false},
		"a month":             {day(func(it item.Item) { it["window"] = item.S("monthly") }), false},
		"more than its hours": {day(func(it item.Item) { it["rpm"] = item.N(16) }), false},
		"one more limit":      {day(func(it item.Item) { it["tpm"] = item.N(1) }), false},
		"of another key":      {day(func(it item.Item) { it["SK"] = item.S("#USAGE#gpt#2023-11-14T01:00:00Z") }), false},
	} {
		u, due := Replace(c.it, hours)
		check.Equal(t, due, c.due, name)
		if !due {
			continue
		}
		after := applied(t, u, c.it)
		if WindowOf(after) != Replaced || AmountOf(after).Tokens["rpm"] != 10 {
			t.Errorf("%s: %v", name, after)
		}
		if _, held, _ := u.Apply(after); held {
			t.Errorf("%s: it was replaced twice", name)
		}
	}
}

// The sum of thousands of limits is refused, after a look at no more than an update has room for.
func TestSumsOfTooManyLimitsAreCut(t *testing.T) {
	s := &Sum{Place: day, Amount: Amount{Tokens: map[string]int64{}}, Summed: Summed{Version: 1}}
	for i := range 9 * MaxCounts {
		s.Tokens[fmt.Sprint("l", i)] = 1
	}
	u, due := s.Update(nil)
	if n := len(u.Set); !due || n > MaxCounts+3 || item.Validate(u) == nil {
		t.Errorf("due %v, %d attributes set, %v", due, n, item.Validate(u))
	}
}
