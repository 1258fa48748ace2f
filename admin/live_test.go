package admin

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// The counters of a bucket that was removed begin anew: all that its next life has consumed is
// live, whatever the last snapshot has counted.
func TestLiveUsageOfAnotherLife(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 1000, Period: 1000}
	b := table.Shard{Generation: start, State: bucket.New([]bucket.Limit{limit}, 0, 1, start)}
	b.State.Slots[b.State.Index("rpm")].Used = 9000
	at := table.PositionOf(1, "5")
	for _, c := range []struct {
		name string
		mark table.Mark
		want int64
	}{
		{"not counted yet", table.Mark{}, 9},
		{"counted up to 4", table.Mark{At: at, Used: []table.Count{{Limit: "rpm", Tokens: 4}}}, 5},
		{"behind a mark of the same life", table.Mark{At: at, Gen: table.GenerationByte(b.Generation),
			Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, -3},
		{"behind a mark of another life", table.Mark{At: at, Gen: table.GenerationByte(b.Generation) + 1,
			Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"behind a mark of no known life", table.Mark{At: at, Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"of a life that ended at 4", table.Mark{At: at, Gone: true, Used: []table.Count{{Limit: "rpm", Tokens: 4}}}, 9},
	} {
		if got := grown(c.mark, b)["rpm"]; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// What a bucket has consumed in the hour that holds now is what its counters have grown by since
// the latest snapshot that says how far it had counted them. One of another client says nothing
// of that, and hides what is before it; a day says nothing of its hours before it is over. Beyond a
// thousand snapshots nobody looks.
func TestLiveUsageSinceTheLatestMark(t *testing.T) {
	type snap struct {
		window, at string
		marks      map[int]table.Mark
		of         string // empty: the resource itself
	}
	mark := table.Mark{At: table.PositionOf(1, "5"), Used: []table.Count{{Limit: "rpm", Tokens: 1}}}
	zero, one := map[int]table.Mark{0: mark}, map[int]table.Mark{1: mark}
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
			it := table.Snapshot{Namespace: w.ns.ID(), Entity: "acme", Resource: cmp.Or(s.of, "gpt-4"), Window: s.window,
				Start: s.at, Part: s.at, Marks: s.marks}
			if s.marks != nil {
				it.Legend = table.Legend{Stream: 1, Limits: []string{"rpm"}}
			}
			w.db.Store(it.Item())
		}
		got := int64(0)
		q := UsageQuery{Entity: "acme", Resource: "gpt-4", Window: Hourly, Live: true,
			From: time.UnixMilli(start + 46*60_000)}
		for _, u := range collect(t, w.ns.Usage(t.Context(), q)) {
			got += u.Tokens["rpm"]
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Of many snapshots only those are read that are needed.
func TestLiveUsageLooksNoFurtherThanItNeeds(t *testing.T) {
	w := newWorld(t)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 3}, rpm10)
	w.advance(100 * time.Hour)
	for h := range 100 {
		at := time.UnixMilli(start).Add(time.Duration(h) * time.Hour).UTC().Truncate(time.Hour).Format(time.RFC3339)
		w.db.Store(table.Snapshot{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: "hourly", Start: at,
			Part: at, Legend: table.Legend{Stream: 1, Limits: []string{"rpm"}}, Marks: map[int]table.Mark{
				0: {At: table.PositionOf(1, "5"), Used: []table.Count{{Limit: "rpm", Tokens: 1}}}}}.Item())
	}
	calls := w.calls(func() {
		u, ok, err := w.ns.live(t.Context(), Scope{"acme", "gpt-4"}, Hourly)
		if err != nil || !ok || u.Tokens["rpm"] != 2 {
			t.Errorf("%+v, %v, %v", u, ok, err)
		}
	})
	if calls > 6 {
		t.Errorf("%d calls", calls)
	}
}
