package admin

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// The counters of a bucket that was removed begin anew: all that its next life has consumed is
// live, whatever the last snapshot has counted.
func TestLiveUsageOfAnotherLife(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 1000, Period: 1000}
	b := table.Shard{Generation: start << 12, State: bucket.New([]bucket.Limit{limit}, 0, 1, start)}
	b.State.Slots[b.State.Index("rpm")].Used = 9000
	at := ledger.PositionOf(1, "5")
	for _, c := range []struct {
		name string
		mark ledger.Mark
		want int64
	}{
		{"not counted yet", ledger.Mark{}, 9},
		{"counted up to 4", ledger.Mark{At: at, Used: []ledger.Count{{Limit: "rpm", Tokens: 4}}}, 5},
		{"behind a mark of the same life", ledger.Mark{At: at, Gen: table.GenerationByte(b.Generation),
			Used: []ledger.Count{{Limit: "rpm", Tokens: 12}}}, -3},
		{"behind a mark of another life", ledger.Mark{At: at, Gen: table.GenerationByte(b.Generation) + 1,
			Used: []ledger.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"behind a mark of no known life", ledger.Mark{At: at, Used: []ledger.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"of a life that ended at 4", ledger.Mark{At: at, Gone: true, Used: []ledger.Count{{Limit: "rpm", Tokens: 4}}}, 9},
		{"behind nothing, by a mark of another life", ledger.Mark{At: at, Gen: table.GenerationByte(b.Generation) + 1,
			Used: []ledger.Count{{Limit: "rpm", Tokens: 9}}}, 0},
		{"of a life that ended at nobody knows what", ledger.Mark{At: at, Gone: true}, 9},
		{"counted up to nobody knows what", ledger.Mark{At: at}, 0},
	} {
		check.Equal(t, grown(c.mark, b)["rpm"], c.want, c.name)
	}
	b.Generation = 0 // another client has made it
	check.Equal(t, grown(ledger.Mark{At: at, Used: []ledger.Count{{Limit: "rpm", Tokens: 12}}}, b)["rpm"], 9,
		"behind a mark, without generations")
}

// The meter is no limit of anybody's, wherever it stands among the others.
func TestLiveUsageIsWithoutTheMeter(t *testing.T) {
	limit := bucket.Limit{Capacity: 10_000, Amount: 1000, Period: 1000}
	var limits []bucket.Limit
	for _, limit.Name = range []string{"rpm", bucket.WCU, "zpm"} {
		limits = append(limits, limit)
	}
	b := table.Shard{Generation: start << 12, State: bucket.New(limits, 0, 1, start)}
	for i := range b.State.Slots {
		b.State.Slots[i].Used = 9000
	}
	check.Deep(t, grown(ledger.Mark{}, b), map[string]int64{"rpm": 9, "zpm": 9})
}

// A day and a month that are not over are the sum of their hours, of days that are long over, and
// of what their own snapshot counts beside them.
func TestLiveUsageOfHoursAndDays(t *testing.T) {
	type snap struct {
		window, part string
		rpm          int64
		at, of       string // empty: the part, gpt-4
	}
	hours := []snap{
		{window: "hourly", part: "2023-11-14T00:00:00Z", rpm: 900}, // another client's day
		{window: "hourly", part: "2023-11-14T19:00:00Z", rpm: 1}, {window: "hourly", part: "2023-11-14T20:00:00Z", rpm: 2},
		{window: "hourly", part: "2023-11-14T18:00:00Z", at: "2023-10-14T18:00:00Z", rpm: 500},
		{window: "hourly", part: "2023-11-14T17:00:00Z", at: "2023-12-14T17:00:00Z", rpm: 600},
		{window: "hourly", part: "2023-11-14T20:00:00Z", rpm: 700, of: "gpt-4#2023-11"},
		{window: "hourly", part: "2023-11-14T20:00:00Z", rpm: 800, of: "gpt-4#2023-11-14"},
		{window: "hourly", part: "2023-11-13T20:00:00Z", rpm: 20}, {window: "daily", part: "2023-11-13", rpm: 5000},
		{window: "hourly", part: "2023-11-12T20:00:00Z", rpm: 40}, {window: "daily", part: "2023-11-12", rpm: 300},
		{window: "hourly", part: "2023-11-11T20:00:00Z", rpm: 60},
		{window: "hourly", part: "2023-10-31T20:00:00Z", rpm: 9000},
	}
	for _, c := range []struct {
		window      Window
		rpm, events int64
	}{{Daily, 10_003, 3}, {Monthly, 20_000 + 3 + 20 + 300 + 60, 6}} {
		w := newWorld(t)
		for _, s := range hours {
			it := ledger.Snapshot{Namespace: w.ns.ID(), Entity: "acme", Resource: cmp.Or(s.of, "gpt-4"), Window: s.window,
				Start: cmp.Or(s.at, s.part), Part: s.part, Counts: map[string]int64{"rpm": s.rpm, bucket.WCU: 1}, Events: 1}
			if s.window == "daily" {
				it.Start += "T00:00:00Z"
			}
			w.db.Store(it.Item())
		}
		for part, base := range map[string]int64{"2023-11-14": 10_000, "2023-11": 20_000} {
			sum := ledger.Sum{Place: ledger.Place{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: "daily",
				Start: "2023-11-14T00:00:00Z", Part: part}, Amount: ledger.Amount{Tokens: map[string]int64{"rpm": 2}}}
			if sum.Version, sum.Parts = 1, []int{1}; part == "2023-11" {
				sum.Window, sum.Start = "monthly", "2023-11-01T00:00:00Z"
			}
			sum.Base = &ledger.Amount{Tokens: map[string]int64{"rpm": base}, Events: 1}
			up, _ := sum.Update(nil)
			w.must(check.Err(w.db.Write(t.Context(), up)))
		}
		u := w.live(c.window)
		check.Deep(t, u.Tokens, map[string]int64{"rpm": c.rpm}, "%s", c.window)
		check.Equal(t, u.Events, c.events, "%s: events", c.window)
	}
}

// markOf is the mark of a shard that was counted up to so many tokens.
func markOf(rpm int64) ledger.Mark {
	return ledger.Mark{At: ledger.PositionOf(1, "5"), Used: []ledger.Count{{Limit: "rpm", Tokens: rpm}}}
}

// marked returns a snapshot of acme on gpt-4 that has marks; nil is another client's.
func (w *world) marked(window, at string, marks map[int]ledger.Mark) ledger.Snapshot {
	s := ledger.Snapshot{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: window, Start: at, Part: at,
		Marks: marks}
	if marks != nil {
		s.Legend = ledger.Legend{Stream: 1, Limits: []string{"rpm"}}
	}
	return s
}

// live returns the usage of acme on gpt-4 in the window that holds now.
func (w *world) live(of Window) Usage {
	w.Helper()
	u, ok, err := w.ns.live(w.Context(), Scope{"acme", "gpt-4"}, of)
	w.must(err)
	check.Equal(w, ok, true, "live usage is known")
	return u
}

// A shard is counted from where the latest snapshot says that has it, and no further snapshot is
// read once all are known.
func TestMarksOfShards(t *testing.T) {
	w := newWorld(t)
	snap := func(hour string, marks map[int]ledger.Mark) item.Item {
		return w.marked("hourly", "2023-11-14T"+hour+":00:00Z", marks).Item()
	}
	w.db.Store(snap("19", map[int]ledger.Mark{0: markOf(1), 1: markOf(1), 2: markOf(1)}))
	late := snap("21", map[int]ledger.Mark{1: markOf(5)})
	early := snap("20", map[int]ledger.Mark{0: markOf(3), 1: markOf(2)})
	shards := make([]table.Shard, 3)
	for k := range shards {
		shards[k].State.Shard = k
	}
	u := Usage{Entity: "acme", Resource: "gpt-4", Window: Hourly, Start: time.UnixMilli(start)}
	current := layout.UsageKey(w.ns.ID(), "acme", "gpt-4", "2023-11-14T22:00:00Z")
	for n, want := range map[int]struct {
		used  []int64
		calls int
	}{0: {nil, 0}, 2: {[]int64{3, 5}, 0}, 3: {[]int64{3, 5, 1}, 1}} {
		calls := w.calls(func() {
			marks, others, err := w.ns.marks(t.Context(), current, []item.Item{late, early}, shards[:n], u)
			if err != nil || others || len(marks) != n {
				t.Errorf("of %d shards: %v, %v, %v", n, marks, others, err)
			}
			for k, want := range want.used {
				got, _ := ledger.CountOf(marks[k].Used, "rpm")
				check.Equal(t, got, want, "of %d shards: shard %d is counted up to", n, k)
			}
		})
		check.Equal(t, calls, want.calls, "%d shards: calls", n)
	}
}

// A snapshot tells where a window goes on if it is of that kind, or was over when it began.
func TestWindowsFollowSnapshotsOfTheirKind(t *testing.T) {
	u := Usage{Resource: "gpt-4", Window: Hourly, Start: time.Date(2023, 11, 14, 22, 0, 0, 0, time.UTC)}
	marks := map[int]ledger.Mark{0: {At: ledger.PositionOf(1, "5")}}
	for _, c := range []struct {
		window, at string
		marks      map[int]ledger.Mark
		want       bool
	}{
		{"hourly", "2023-11-14T21:00:00Z", marks, true}, {"hourly", "2023-11-14T21:00:00Z", nil, true},
		{"daily", "2023-11-13T00:00:00Z", marks, true}, {"daily", "2023-11-13T00:00:00Z", nil, false},
		{"daily", "2023-11-14T00:00:00Z", marks, false}, {"weekly", "2023-11-06T00:00:00Z", marks, false},
	} {
		it := ledger.Snapshot{Entity: "acme", Resource: "gpt-4", Window: c.window, Start: c.at, Part: c.at, Marks: c.marks,
			Legend: ledger.Legend{Stream: 1}}.Item()
		check.Equal(t, u.follows(it), c.want, "%s %s, marks %v", c.window, c.at, c.marks)
	}
	w := newWorld(t)
	up, _ := (&ledger.Sum{Place: ledger.Place{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: "daily",
		Part: "2023-11-13", Start: "2023-11-13T00:00:00Z"}, Amount: ledger.Amount{Tokens: map[string]int64{"rpm": 2}},
		Summed: ledger.Summed{Version: 1, Parts: []int{1}}}).Update(nil)
	w.must(check.Err(w.db.Write(t.Context(), up)))
	u.Window = Daily
	check.Equal(t, u.follows(w.db.Item(up.Key)), false, "a sum says how far its bucket was counted")
}

// A bucket that was made in this window is new whole, on all its shards.
func TestLiveUsageOfNewShards(t *testing.T) {
	for _, at := range []int64{start, start - 800_000} { // and at the beginning of its hour
		w := newWorld(t)
		w.now.Store(at)
		w.set(Scope{}, rpm10)
		w.split("acme", "gpt-4", 1)
		check.Equal(t, w.live(Hourly).Tokens["rpm"], 1, "at %d", at)
		_, ok, err := w.ns.live(t.Context(), Scope{"unknown", "gpt-4"}, Hourly)
		w.must(err)
		check.Equal(t, ok, false, "an entity without buckets has usage")
	}
}

// A day is what its hours have counted and what has come since the latest of them, unless it was
// counted by itself.
func TestLiveUsageOfADay(t *testing.T) {
	w := newWorld(t)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 4}, rpm10)
	snap := func(at string, counted int64) {
		s := w.marked("hourly", at, map[int]ledger.Mark{0: markOf(counted)})
		s.Counts = map[string]int64{"rpm": 1}
		w.db.Store(s.Item())
	}
	snap("2023-11-14T20:00:00Z", 1)
	snap("2023-11-14T21:00:00Z", 3)
	check.Equal(t, w.live(Daily).Tokens["rpm"], 1+1+4-3)
	w.db.Store(ledger.Snapshot{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: "daily",
		Start: "2023-11-14T00:00:00Z", Part: "2023-11-14", Counts: map[string]int64{"rpm": 50}}.Item())
	check.Equal(t, w.live(Daily).Tokens["rpm"], 50)
}

// What a bucket has consumed in the hour that holds now is what its counters have grown by since
// the latest snapshot that says how far it had counted them. One of another client says nothing
// of that, and hides what is before it; a day says nothing of its hours before it is over. Beyond a
// thousand snapshots nobody looks.
func TestLiveUsageSinceTheLatestMark(t *testing.T) {
	type snap struct {
		window, at string
		marks      map[int]ledger.Mark
		of         string // empty: the resource itself
	}
	mark := markOf(1)
	zero, one := map[int]ledger.Mark{0: mark}, map[int]ledger.Mark{1: mark}
	others := func(n int) (out []snap) { // days of other clients, which an hour does not go by
		for i := range n {
			out = append(out, snap{window: "daily", at: fmt.Sprintf("2023-11-14T21:30:00.%04dZ", i)})
		}
		return append(out, snap{"hourly", "2023-11-14T21:00:00Z", zero, ""})
	}
	for _, c := range []struct {
		name  string
		snaps []snap
		want  int64 // 0: nothing is shown
	}{
		{"nothing is counted", nil, 0},
		{"an hour", []snap{{"hourly", "2023-11-14T22:00:00Z", zero, ""}}, 2},
		{"this hour", []snap{{"hourly", "2023-11-14T23:00:00Z", zero, ""}}, 2},
		{"an hour of another shard", []snap{{"hourly", "2023-11-14T22:00:00Z", one, ""},
			{"hourly", "2023-11-14T21:00:00Z", zero, ""}}, 2},
		{"another client's hour", []snap{{"hourly", "2023-11-14T22:00:00Z", nil, ""},
			{"hourly", "2023-11-14T21:00:00Z", zero, ""}}, 0},
		{"before another client's hour", []snap{{"hourly", "2023-11-14T22:00:00Z", zero, ""},
			{"hourly", "2023-11-14T21:00:00Z", nil, ""}}, 2},
		{"a day that is over", []snap{{"daily", "2023-11-13T00:00:00Z", zero, ""}}, 2},
		{"a day that is not", []snap{{"daily", "2023-11-14T00:00:00Z", zero, ""}}, 0},
		{"an hour of a resource whose name goes on", []snap{{"hourly", "2023-11-14T22:00:00Z", zero, "gpt-4#1"},
			{"hourly", "2023-11-14T22:00:00Z", nil, ""}}, 0},
		{"a resource whose name goes on, alone", []snap{{"hourly", "2023-11-14T22:00:00Z", zero, "gpt-4#1"}}, 0},
		{"a thousand snapshots", others(marksBack - 1), 2},
		{"more than a thousand", others(marksBack), 0},
	} {
		w := newWorld(t)
		w.db.PageSize = 1000
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 3}, rpm10)
		w.advance(time.Hour)
		for _, s := range c.snaps {
			it := w.marked(s.window, s.at, s.marks)
			it.Resource = cmp.Or(s.of, "gpt-4")
			w.db.Store(it.Item())
		}
		got := int64(0)
		q := UsageQuery{Entity: "acme", Resource: "gpt-4", Window: Hourly, Live: true,
			From: time.UnixMilli(start + 46*60_000)}
		for _, u := range collect(t, w.ns.Usage(t.Context(), q)) {
			got += u.Tokens["rpm"]
		}
		check.Equal(t, got, c.want, c.name)
	}
}

// Of many snapshots only those are read that are needed.
func TestLiveUsageLooksNoFurtherThanItNeeds(t *testing.T) {
	w := newWorld(t)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 3}, rpm10)
	w.advance(100 * time.Hour)
	for h := range 100 {
		at := time.UnixMilli(start).Add(time.Duration(h) * time.Hour).UTC().Truncate(time.Hour).Format(time.RFC3339)
		w.db.Store(w.marked("hourly", at, map[int]ledger.Mark{0: markOf(1)}).Item())
	}
	calls := w.calls(func() { check.Equal(t, w.live(Hourly).Tokens["rpm"], 2) })
	if calls > 6 {
		t.Errorf("%d calls", calls)
	}
}

// A shard that nobody knows how far it was counted hides none that comes after it.
func TestUnknownShardsHideNoOtherLiveUsage(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 80))
	w.split("acme", "gpt-4", 1)
	w.advance(2 * time.Hour)
	w.spoil("acme", 1, item.Item{"b_rpm_tc": item.N(9000)})
	w.db.Store(w.marked("hourly", "2023-11-14T22:00:00Z", map[int]ledger.Mark{1: markOf(2)}).Item())
	check.Equal(t, w.live(Hourly).Tokens["rpm"], 7)
}

// Windows are those of UTC, wherever the clock stands.
func TestWindowsAreOfUTC(t *testing.T) {
	now := time.Date(2024, 3, 1, 4, 40, 0, 0, time.FixedZone("IST", 19_800)) // 29 February, 23:10
	for w, want := range map[Window]string{Hourly: "2024-02-29T23:00:00Z", Daily: "2024-02-29", Monthly: "2024-02"} {
		start, part := w.start(now)
		if part != want || !strings.HasPrefix(start.Format(time.RFC3339), want) {
			t.Errorf("%s: %s, %s, want %s", w, start, part, want)
		}
	}
}
