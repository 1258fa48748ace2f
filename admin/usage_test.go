package admin

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Live usage is of the window that holds now, 22:13 on 14 November 2023: what snapshots say,
// what hours say of a day that has none, and what buckets show that nobody has counted. Each
// bucket is shown once.
func TestLiveUsage(t *testing.T) {
	w := newWorld(t)
	hour := func(entity, day string, h int, rpm int64) {
		at := fmt.Sprintf("2023-11-%sT%02d:00:00Z", day, h)
		w.snapshot(entity, "gpt-4", "hourly", at, at, map[string]int64{"rpm": rpm})
	}
	hour("hours", "14", 20, 5)
	hour("hours", "14", 21, 2)
	hour("both", "14", 20, 5)
	hour("both", "14", 21, 2)
	w.snapshot("both", "gpt-4", "daily", "2023-11-14T00:00:00Z", "2023-11-14", map[string]int64{"rpm": 7})
	hour("yesterday", "13", 21, 9)
	w.snapshot("hours", "gpt-4#x", "hourly", "2023-11-14T20:00:00Z", "2023-11-14T20:00:00Z", map[string]int64{"rpm": 70})
	w.take("bucket", "gpt-4", limiter.Costs{"rpm": 3}, rpm10)
	w.take("bucket2", "gpt-4", limiter.Costs{"rpm": 4}, rpm10)
	for _, counted := range []string{"hours", "both"} {
		w.take(counted, "gpt-4", limiter.Costs{"rpm": 3}, rpm10)
	}
	list := func(q UsageQuery) (got []string) {
		for _, u := range collect(t, w.ns.Usage(t.Context(), q)) {
			if _, metered := u.Tokens[bucket.WCU]; metered {
				t.Errorf("%+v tells of the write meter", u)
			}
			if of := u.Entity == "hours" && u.Resource == "gpt-4" && q.Window == Daily; of && u.Events != 2 {
				t.Errorf("%+v: %d events, want those of two hours", u, u.Events)
			}
			got = append(got, fmt.Sprintf("%s %d on %s", u.Entity, u.Tokens["rpm"], u.Start.UTC().Format("02 15:04")))
		}
		return got
	}
	for _, c := range []struct {
		q    UsageQuery
		want []string
	}{
		{UsageQuery{Resource: "gpt-4", Window: Daily}, []string{"both 7 on 14 00:00"}},
		{UsageQuery{Resource: "gpt-4", Window: Daily, Live: true},
			[]string{"both 7 on 14 00:00", "hours 7 on 14 00:00", "bucket 3 on 14 00:00", "bucket2 4 on 14 00:00"}},
		{UsageQuery{Entity: "hours", Window: Daily, Live: true}, []string{"hours 7 on 14 00:00", "hours 70 on 14 00:00"}},
		{UsageQuery{Entity: "hours", Resource: "gpt-4", Window: Daily, Live: true}, []string{"hours 7 on 14 00:00"}},
		{UsageQuery{Resource: "gpt-4", Window: Monthly, Live: true},
			[]string{"both 7 on 01 00:00", "hours 7 on 01 00:00", "yesterday 9 on 01 00:00", "bucket 3 on 01 00:00",
				"bucket2 4 on 01 00:00"}},
		{UsageQuery{Entity: "yesterday", Window: Daily, Live: true}, nil},
		{UsageQuery{Entity: "hours", Resource: "gpt-4", Window: Hourly, Live: true},
			[]string{"hours 5 on 14 20:00", "hours 2 on 14 21:00"}},
		{UsageQuery{Entity: "bucket", Window: Hourly, Live: true}, []string{"bucket 3 on 14 22:00"}},
	} {
		check.Slices(t, list(c.q), c.want, "%+v", c.q)
	}
}

// Metadata is nested as deep as other clients read it, and no deeper.
func TestDepthOfMetadata(t *testing.T) {
	w := newWorld(t)
	var lists, maps any = "x", "x"
	for range maxDepth - 1 {
		lists, maps = []any{lists}, map[string]any{"m": maps}
	}
	w.create(Entity{ID: "acme", Metadata: map[string]any{"lists": lists, "maps": maps}})
	for name, deeper := range map[string]any{"lists": []any{lists}, "maps": map[string]any{"m": maps}} {
		_, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "acme", Metadata: map[string]any{name: deeper}})
		w.refused(err, limiter.ErrInvalid, "Metadata is \""+name, name)
		check.Says(t, err, "want at most 16 levels", name)
	}
}

// A number of an entity's metadata is stored if DynamoDB can: 0, or between 1e-125 and 1e125
// without its sign.
func TestNumbersOfMetadata(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	for n, ok := range map[float64]bool{0: true, 0.5: true, -1: true, 1e125: true, -1e125: true, 1e-125: true,
		1.1e125: false, -1.1e125: false, 0.9e-125: false, math.NaN(): false, math.Inf(1): false, math.Inf(-1): false} {
		_, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "acme", Metadata: map[string]any{"n": n}})
		if ok != (err == nil) || !ok && !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%g: %v", n, err)
			continue
		}
		if e, err := w.ns.Entity(t.Context(), "acme"); ok && (err != nil || fmt.Sprint(e.Metadata["n"]) != fmt.Sprint(n)) {
			t.Errorf("%g came back as %v, %v", n, e.Metadata["n"], err)
		}
	}
}

func (w *world) snapshot(entity, resource, window, start, part string, counts map[string]int64) {
	w.db.Store(ledger.Snapshot{
		Namespace: w.ns.ID(), Entity: entity, Resource: resource, Window: window, Start: start, Part: part, Counts: counts,
		Events: 1,
	}.Item())
}

// Usage of each window, its sum, live usage and Peek show denials: the snapshot of an hour has 5, and 4 are in no
// snapshot yet.
func TestDenialsInUsage(t *testing.T) {
	w := newWorld(t)
	l := w.limiter()
	req := limiter.Request{Entity: "acme", Resource: "gpt-4", Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}}
	for _, cost := range []int64{10, 1, 2, 3, 4, 0} { // one is granted and four are denied; the last one writes that
		req.Costs = limiter.Costs{"rpm": cost}
		_, _ = l.Acquire(t.Context(), req)
	}
	check.Equal(t, w.peek("acme", "gpt-4")[0].Denied, 4, "peek")
	w.db.Store(ledger.Snapshot{Namespace: w.ns.ID(), Entity: "acme", Resource: "gpt-4", Window: "hourly", Denied: 5,
		Marks: map[int]ledger.Mark{}, Start: "2023-11-14T20:00:00Z", Part: "2023-11-14T20:00:00Z"}.Item())
	for q, want := range map[UsageQuery]int64{
		{Entity: "acme", Window: Hourly}:             5,
		{Entity: "acme", Window: Hourly, Live: true}: 9,
		{Entity: "acme", Window: Daily, Live: true}:  9,
	} {
		s, err := w.ns.UsageSummary(t.Context(), q)
		if err != nil || s.Denied != want || s.Tokens[bucket.Denied] != 0 || len(s.Tokens) > 1 {
			t.Errorf("%+v: %+v, %v, want %d denied", q, s, err, want)
		}
	}
}

// Usage is found by entity and by resource, in time ranges, over pages, whatever
// form the key has, and never counts writes.
func TestUsage(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := newWorld(t)
		w.db.ProjectAll = all
		for _, e := range []string{"acme", "other"} {
			for d := 1; d <= 3; d++ {
				day := fmt.Sprintf("2024-02-%02d", d)
				for h := range 3 {
					at := fmt.Sprintf("%sT%02d:00:00Z", day, h)
					w.snapshot(e, "gpt-4", "hourly", at, at, map[string]int64{"rpm": 1, "tpm": int64(h), "wcu": 7})
				}
				w.snapshot(e, "gpt-4", "daily", day+"T00:00:00Z", day, map[string]int64{"rpm": 3, "tpm": 3})
			}
			w.snapshot(e, "gpt-4", "monthly", "2024-02-01T00:00:00Z", "2024-02", map[string]int64{"rpm": 9, "tpm": 9})
			w.snapshot(e, "gpt-4#x", "hourly", "2024-01-31T23:00:00Z", "2024-01-31T23:00:00Z", map[string]int64{"rpm": 100})
		}
		feb := func(d, h int) time.Time { return time.Date(2024, 2, d, h, 0, 0, 0, time.UTC) }
		for _, tt := range []struct {
			q    UsageQuery
			want int
			rpm  int64
		}{
			{UsageQuery{Entity: "acme"}, 14, 127},
			{UsageQuery{Entity: "acme", Resource: "gpt-4"}, 13, 27},
			{UsageQuery{Entity: "acme", Resource: "gpt-4", Window: Hourly}, 9, 9},
			{UsageQuery{Resource: "gpt-4", Window: Hourly}, 18, 18},
			{UsageQuery{Resource: "gpt-4", Window: Daily, From: feb(2, 0)}, 4, 12},
			{UsageQuery{Entity: "acme", Resource: "gpt-4", Window: Hourly, From: feb(2, 1), To: feb(3, 1)}, 3, 3},
			{UsageQuery{Entity: "acme", Window: Hourly, To: feb(1, 1)}, 2, 101},
			{UsageQuery{Resource: "gpt-4", Window: Monthly, From: feb(1, 0), To: feb(1, 1)}, 2, 18},
			{UsageQuery{Resource: "gpt-4", Window: Monthly, From: feb(1, 1)}, 0, 0},
			{UsageQuery{Entity: "acme", Resource: "gpt-4", To: feb(1, 0)}, 0, 0},
		} {
			rpm := int64(0)
			got := collect(t, w.ns.Usage(t.Context(), tt.q))
			for _, u := range got {
				rpm += u.Tokens["rpm"]
				if _, counted := u.Tokens["wcu"]; counted || !u.End.After(u.Start) {
					t.Errorf("%+v", u)
				}
			}
			if len(got) != tt.want || rpm != tt.rpm {
				t.Errorf("%+v: %d windows of %d rpm, want %d of %d", tt.q, len(got), rpm, tt.want, tt.rpm)
			}
		}
		s, err := w.ns.UsageSummary(t.Context(), UsageQuery{Entity: "acme", Resource: "gpt-4", Window: Hourly})
		if err != nil || s.Windows != 9 || s.Tokens["tpm"] != 9 || s.Mean["rpm"] != 1 || s.Events != 9 ||
			s.From != feb(1, 0) || s.To != feb(3, 3) {
			t.Errorf("summary %+v, %v", s, err)
		}
		// From the beginning of the first window to the end of the last, in whatever order they are listed.
		s, err = w.ns.UsageSummary(t.Context(), UsageQuery{Entity: "acme", Window: Hourly})
		if err != nil || s.Windows != 10 || s.Tokens["rpm"] != 109 || s.Mean["rpm"] != 10.9 || s.From != feb(1, -1) ||
			s.To != feb(3, 3) {
			t.Errorf("summary of two resources %+v, %v", s, err)
		}
	}
}

// The window that holds now is only shown where the query asks for it.
func TestLiveUsageOfAnotherTime(t *testing.T) {
	w := newWorld(t)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 3}, rpm10)
	now := time.UnixMilli(start).UTC().Truncate(time.Hour)
	for _, c := range []struct {
		from, to time.Time
		want     int
	}{
		{time.Time{}, time.Time{}, 1}, {now, time.Time{}, 1}, {now.Add(time.Hour), time.Time{}, 0}, {time.Time{}, now, 0},
		{now, now.Add(time.Hour), 1},
	} {
		q := UsageQuery{Entity: "acme", Window: Hourly, Live: true, From: c.from, To: c.to}
		got := collect(t, w.ns.Usage(t.Context(), q))
		check.Equal(t, len(got), c.want, "from %v to %v: %+v", c.from, c.to, got)
	}
}
