package usage

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// The parts of a month are exactly its days; for an unfinished month, until tomorrow.
func TestPartsOfAMonthAreItsDays(t *testing.T) {
	o := Owed{Bucket: Bucket{"ns", "r", "e"}}
	feb, next := at("2024-02-01T00:00:00.000Z"), at("2024-03-01T00:00:00.000Z")
	for _, c := range []struct {
		name string
		now  int64
		last string
		n    int
	}{
		{"long ago", next + 90*dayMillis, "#USAGE#r#2024-02-29", 29},
		{"at its first instant", feb, "#USAGE#r#2024-02-01", 1},
		{"in its third day", feb + 2*dayMillis + 1, "#USAGE#r#2024-02-04", 4},
		{"in its last hour", next - hourMillis, "#USAGE#r#2024-02-29", 29},
		{"by a clock that is behind", feb - 1, "#USAGE#r#2024-02-29", 29},
	} {
		keys := Summing{Owed: o, Window: Monthly, Of: Daily, Start: feb}.PartKeys(c.now)
		if len(keys) != c.n || keys[0] != layout.UsageKey("ns", "e", "r", "2024-02-01") || keys[len(keys)-1].SK != c.last {
			t.Errorf("%s: %d keys from %v to %v, want %d to %s", c.name, len(keys), keys[0], keys[len(keys)-1], c.n, c.last)
		}
	}
}

// The hours of a day are read consistently, because they were just written, and the last sum must
// include them all. The query covers exactly the day's hours.
func TestPartsOfADayAreReadConsistently(t *testing.T) {
	o := Owed{Bucket: Bucket{"ns", "r", "e"}}
	q := Summing{Owed: o, Window: Daily, Of: Hourly, Start: at("2024-02-01T00:00:00.000Z")}.PartsQuery()
	first := layout.UsageKey("ns", "e", "r", "2024-02-01T00:00:00Z")
	last := layout.UsageKey("ns", "e", "r", "2024-02-01T23:00:00Z")
	if !q.Consistent || q.PK != first.PK || q.From != first.SK || q.To != last.SK {
		t.Errorf("%+v, want a consistent one from %v to %v", q, first, last)
	}
}

// A sum keeps counts that its parts have lost: if they have fewer records than the sum, or may have
// expired. If tokens were given back, the sum follows its parts.
func TestSumsKeepLostParts(t *testing.T) {
	day := at("2024-02-01T00:00:00.000Z")
	snapshot := func(w Window, tokens, events int64) ledger.Snapshot {
		return ledger.Snapshot{Namespace: "ns", Entity: "e", Resource: "r", Window: string(w),
			Part:  w.Part(day + hourMillis),
			Start: layout.Timestamp(w.Start(day + hourMillis)), Counts: map[string]int64{"rpm": tokens}, Events: events}
	}
	marked := func(s ledger.Snapshot, sequence string, used ...ledger.Count) ledger.Snapshot {
		s.Legend = ledger.Legend{Stream: t0 / 1000, Limits: []string{"rpm"}}
		s.Marks = map[int]ledger.Mark{0: {At: ledger.PositionOf(t0/1000, sequence), Gen: 9, Used: used}}
		return s
	}
	counted := marked(snapshot(Daily, 50, 5), "5") // when days were the finest windows
	sum := func(base *ledger.Amount) item.Item {
		s := ledger.Sum{Place: Bucket{"ns", "r", "e"}.place(Daily, day)}
		s.Version, s.Base, s.Parts = 1, base, []int{1}
		s.Amount = ledger.Amount{Tokens: map[string]int64{"rpm": 20}, Events: 2}
		u, _ := s.Update(nil)
		return applied(t, u, nil)
	}
	base := &ledger.Amount{Tokens: map[string]int64{"rpm": 30}, Events: 3}
	since := marked(snapshot(Daily, 0, 0), "5").Item()
	for attr, v := range sum(base) {
		since[attr] = v
	}
	since["rpm"], since["total_events"] = item.N(53), item.N(6)
	const kept = dayMillis // one day
	for _, c := range []struct {
		name           string
		stored         item.Item
		tokens, events int64 // of the hour
		after, want    int64 // milliseconds since the day began, and tokens
	}{
		{"counted by another client", snapshot(Daily, 50, 5).Item(), 40, 5, hourMillis, 40},
		{"counted by another client long ago", snapshot(Daily, 50, 5).Item(), 40, 4, kept + dayMillis, 40},
		{"counted before there were hours", counted.Item(), 40, 5, hourMillis, 90},
		{"a sum of stored hours", sum(nil), 25, 3, hourMillis, 25},
		{"a sum of more records than stored", sum(nil), 5, 1, hourMillis, 20},
		{"a sum whose first hour would have expired", sum(nil), 15, 2, kept + hourMillis, 15},
		{"a sum whose hours may have expired", sum(nil), 15, 2, kept + dayMillis, 20},
		{"a sum with a base", sum(base), 40, 4, hourMillis, 70},
		{"a sum with a base, of more records than stored", sum(base), 10, 1, hourMillis, 50},
		{"a sum that was counted since", since, 25, 3, hourMillis, 55},
	} {
		s := Summing{Owed: Owed{Bucket: Bucket{"ns", "r", "e"}}, Window: Daily, Of: Hourly, Start: day,
			Until: Daily, Days: 1, Stored: c.stored}
		hour := marked(snapshot(Hourly, c.tokens, c.events), "4", ledger.Count{Limit: "rpm", Tokens: 40})
		s.Parts = []item.Item{hour.Item()}
		u, _ := s.Sum(day + c.after)
		check.Equal(t, ledger.AmountOf(applied(t, u, c.stored)).Tokens["rpm"], c.want, c.name)
	}
	s := Summing{Owed: Owed{Bucket: Bucket{"ns", "r", "e"}}, Window: Daily, Of: Hourly, Start: day,
		Until: Daily, Days: 1, Parts: []item.Item{snapshot(Hourly, 5, 1).Item()}}
	late := day + 40*hourMillis
	for now, until := range map[int64]int64{day + hourMillis: day/1000 + 2*86_400, late: late/1000 + 86_400} {
		u, _ := s.Sum(now)
		it := applied(t, u, nil)
		if !item.Equal(it[layout.AttrTTL], item.N(until)) || ledger.SummedOf(it).Version != now {
			t.Errorf("%v: want that it goes a day after it ended, or was summed late, and says when it was summed", it)
		}
	}
}

// Other results of the query are not counted: hours of another day, hours of another resource with
// the same prefix, and items that are not hours. They do not replace another aggregator's day
// either.
func TestOnlyTheHoursOfADayAreSummed(t *testing.T) {
	day := at("2024-02-01T00:00:00.000Z")
	snapshot := func(resource string, w Window, hours int64) item.Item {
		start := day + hours*hourMillis
		return ledger.Snapshot{Namespace: "ns", Entity: "e", Resource: resource, Window: string(w), Part: w.Part(start),
			Start: layout.Timestamp(start), Counts: map[string]int64{"rpm": 1}, Events: 1}.Item()
	}
	unnamed := snapshot("r", Hourly, 2) // another client's, with its resource only in the key
	delete(unnamed, "resource")
	s := Summing{Owed: Owed{Bucket: Bucket{"ns", "r", "e"}}, Window: Daily, Of: Hourly, Start: day,
		Until: Daily, Days: 90, Parts: []item.Item{nil, unnamed, snapshot("r", Hourly, 3), snapshot("r", Hourly, 23),
			snapshot("r", Hourly, 24), snapshot("r", Hourly, -1), snapshot("r#x", Hourly, 4), snapshot("r", Daily, 0)}}
	u, _ := s.Sum(day + dayMillis)
	it := applied(t, u, nil)
	if got := ledger.AmountOf(it); got.Tokens["rpm"] != 3 || got.Events != 3 ||
		!slices.Equal(ledger.SummedOf(it).Parts, []int{2, 3, 23}) {
		t.Errorf("%+v of %v", got, ledger.SummedOf(it).Parts)
	}
	for tokens, want := range map[int64]bool{3: true, 4: false} { // more than the hours of the day
		s.Parts[0] = ledger.Snapshot{Namespace: "ns", Entity: "e", Resource: "r", Window: string(Daily),
			Part: Hourly.Part(day), Start: layout.Timestamp(day), Counts: map[string]int64{"rpm": tokens}}.Item()
		_, due := s.Replaced()
		check.Equal(t, due, want, "a day of another aggregator with %d tokens is replaced", tokens)
	}
}

// A stored month has the sum of all days before the last one. If only the last day has changed,
// only that day is read.
func TestMonthIsSummedFromItsLastDay(t *testing.T) {
	month := at("2024-02-01T00:00:00.000Z")
	day := func(n int, tokens int64) item.Item {
		start := month + int64(n-1)*dayMillis
		return ledger.Snapshot{Namespace: "ns", Entity: "e", Resource: "r", Window: string(Daily), Part: Daily.Part(start),
			Start: layout.Timestamp(start), Counts: map[string]int64{"rpm": tokens}, Events: 1}.Item()
	}
	s := Summing{Owed: Owed{Bucket: Bucket{"ns", "r", "e"}}, Window: Monthly, Of: Daily, Start: month,
		Days: 90, Until: Monthly, Parts: []item.Item{day(2, 20), day(3, 5), day(1, 10), day(30, 99)}} // February has 29
	sum := func(now int64) item.Item {
		u, due := s.Sum(now)
		check.MustEqual(t, due, true, "due")
		return applied(t, u, s.Stored)
	}
	s.Stored = sum(month + 3*dayMillis)
	check.Equal(t, item.KeyOf(s.Stored), layout.UsageKey("ns", "e", "r", "2024-02"), "it is stored at")
	if got := ledger.AmountOf(s.Stored).Tokens["rpm"]; got != 35 || ledger.SummedOf(s.Stored).Rest.Tokens["rpm"] != 30 {
		t.Fatalf("%d of 35: %+v", got, ledger.SummedOf(s.Stored))
	}
	if s.Changed = month + dayMillis; s.Last() {
		t.Error("the second of three days counts as the last")
	}
	if s.Changed = month + 2*dayMillis; !s.Last() {
		t.Error("the third of three days does not count as the last")
	}
	older := ledger.Sum{Place: s.place(Monthly, month)} // of an earlier release, without a rest
	older.Version, older.Parts, older.Amount = 1, []int{0, 1, 2}, ledger.Amount{Events: 3}
	u, _ := older.Update(nil)
	whole := s
	if whole.Stored = applied(t, u, nil); whole.Last() {
		t.Error("a month without a rest is not summed as a whole")
	}
	s.Parts = []item.Item{day(3, 7)}
	if s.Stored = sum(month + 3*dayMillis + 1); ledger.AmountOf(s.Stored).Tokens["rpm"] != 37 {
		t.Errorf("%v, want 10, 20 and 7", ledger.AmountOf(s.Stored))
	}
	is := ledger.SummedOf(s.Stored)
	if !slices.Equal(is.Parts, []int{0, 1, 2}) || is.Rest == nil || is.Rest.Tokens["rpm"] != 30 {
		t.Errorf("it records %+v, want all three days", is)
	}
}

// A sum has its parts if none is missing up to the counted hour: a day its hours, and a month its
// days, or the hours of days that were not stored. Only the sum has the counts of expired parts.
func TestSumsKnowTheirParts(t *testing.T) {
	month := at("2024-02-01T00:00:00.000Z")
	snapshot := func(w Window, start int64) item.Item {
		return ledger.Snapshot{Namespace: "ns", Entity: "e", Resource: "r", Window: string(w), Part: w.Part(start),
			Start: layout.Timestamp(start), Counts: map[string]int64{"rpm": 1}, Events: 1}.Item()
	}
	hour := func(n int64) item.Item { return snapshot(Hourly, month+n*hourMillis) }
	day := func(n int64) item.Item { return snapshot(Daily, month+n*dayMillis) }
	sum := func(w Window, base *ledger.Amount, parts ...int) item.Item {
		s := ledger.Sum{Place: Bucket{"ns", "r", "e"}.place(w, month), Amount: ledger.Amount{Events: 1},
			Summed: ledger.Summed{Version: 1, Parts: parts, Base: base}}
		u, _ := s.Update(nil)
		return applied(t, u, nil)
	}
	for _, c := range []struct {
		name      string
		sum       item.Item
		snapshots []item.Item
		hour      int64
		want      bool
	}{
		{"a day of two hours", sum(Daily, nil, 0, 1), []item.Item{hour(0), hour(1)}, 1, true},
		{"a day that begins late", sum(Daily, nil, 7, 22), []item.Item{hour(7), hour(22)}, 23, true},
		{"one whose last hour is missing", sum(Daily, nil, 7, 22), []item.Item{hour(7), hour(21)}, 23, false},
		{"only the day itself is there", sum(Daily, nil, 0), []item.Item{day(0)}, 1, false},
		{"the second is missing", sum(Daily, nil, 0, 1), []item.Item{hour(0)}, 1, false},
		{"the second is later", sum(Daily, nil, 0, 1), []item.Item{hour(0)}, 0, true},
		{"a day among hours", sum(Daily, nil, 0, 1), []item.Item{day(0), hour(0), hour(1)}, 1, true},
		{"a month of two days", sum(Monthly, nil, 0, 1), []item.Item{day(0), day(1)}, 40, true},
		{"the second day is missing", sum(Monthly, nil, 0, 1), []item.Item{day(0), hour(0), hour(1)}, 40, false},
		{"a month of hours", sum(Monthly, nil, 0, 1), []item.Item{hour(0), hour(1)}, 40, true},
		{"parts have expired", sum(Daily, &ledger.Amount{Events: 1}, 0), []item.Item{hour(0)}, 1, false},
	} {
		check.Equal(t, hasParts(c.sum, c.snapshots, month+c.hour*hourMillis), c.want, c.name)
	}
}
