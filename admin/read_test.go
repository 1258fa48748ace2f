package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Peek sees the whole bucket, refilled to now, of the entity and of every parent
// that is charged with it, and changes nothing.
func TestPeek(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 80))
	w.create(Entity{ID: "root"})
	w.create(Entity{ID: "org", Parent: "root"}) // does not cascade
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	w.set(Scope{"acme", "gpt-4"}, rpm10, tpm500)
	peek := func() []Bucket {
		t.Helper()
		got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
		w.must(err)
		return got
	}
	got := peek()
	if len(got) != 2 || got[0].Exists || got[0].Levels[0].Remaining != 10 || got[0].Levels[1].Remaining != 500 ||
		got[1].Entity != "org" ||
		!got[0].Stored || got[0].From != scopes[0] || got[1].From != (Scope{}) || got[1].Levels[0].Remaining != 80 {
		t.Fatalf("before any bucket %+v", got)
	}
	w.must(w.ns.DeleteLimits(t.Context(), Scope{"acme", "gpt-4"}))
	w.split("org", "gpt-4", 2) // takes 1
	before := w.db.Snapshot()
	w.advance(375 * time.Millisecond) // half a token
	got = peek()
	if b := got[1]; !b.Exists || b.Shards != 4 || b.Levels[0].Remaining != 79 || b.Levels[0].FullIn <= 0 ||
		b.Levels[0].Used != 1 ||
		b.Levels[0].Limit != limiter.PerMinute("rpm", 80) || len(b.Levels) != 1 {
		t.Errorf("split bucket %+v", b)
	}
	w.advance(375 * time.Millisecond)
	if b := peek()[1]; b.Levels[0].Remaining != 80 && b.Levels[0].FullIn > time.Second {
		t.Errorf("filled bucket %+v", b)
	}
	for _, it := range before.Items() {
		if !item.EqualItems(it, w.db.Item(item.KeyOf(it))) {
			t.Errorf("%q has changed", item.KeyOf(it))
		}
	}
}

func TestPeekWithoutStoredLimits(t *testing.T) {
	w := newWorld(t)
	_, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	w.wants(err, limiter.ErrNoLimits)
	w.take("acme", "gpt-4", limiter.Costs{"own": 3}, limiter.PerMinute("own", 10))
	got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	if err != nil || len(got) != 1 || len(got[0].Levels) != 1 || got[0].Levels[0].Remaining != 7 || got[0].Stored ||
		got[0].Expires.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

// Listings and sums work over pages, with indexes of keys and of whole items.
func TestBucketsAndCapacity(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := newWorld(t)
		w.db.ProjectAll = all
		w.set(Scope{}, limiter.PerMinute("rpm", 80))
		w.create(Entity{ID: "e0"})
		for i := range 5 {
			id := fmt.Sprint("e", i)
			if i > 0 {
				w.create(Entity{ID: id, Parent: "e0"})
			}
			w.take(id, "gpt-4", limiter.Costs{"rpm": int64(i)})
			w.take(id, "other", limiter.Costs{"rpm": 1})
		}
		w.split("e4", "gpt-4", 2)
		for at, want := range map[Scope]int{{}: 10, {Resource: "gpt-4"}: 5, {Entity: "e1"}: 2, {"e4", "gpt-4"}: 1,
			{Entity: "x"}: 0, {"x", "y"}: 0} {
			if got := collect(t, w.ns.Buckets(t.Context(), at)); len(got) != want {
				t.Errorf("%s: %d buckets, want %d", at, len(got), want)
			}
		}
		c, err := w.ns.Capacity(t.Context(), "gpt-4", "rpm", false)
		if err != nil || c != (Capacity{"gpt-4", "rpm", 5, 400, 400 - 11}) {
			t.Errorf("capacity %+v, %v", c, err)
		}
		c, err = w.ns.Capacity(t.Context(), "gpt-4", "rpm", true)
		if err != nil || c.Entities != 1 || c.Capacity != 80 {
			t.Errorf("capacity without children %+v, %v", c, err)
		}
	}
}

func (w *world) snapshot(entity, resource, window, start, part string, counts map[string]int64) {
	w.db.Store(table.Snapshot{
		Namespace: w.ns.ID(), Entity: entity, Resource: resource, Window: window, Start: start, Part: part, Counts: counts,
		Events: 1,
	}.Item())
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
			w.snapshot(e, "gpt-4#x", "hourly", "2024-02-01T00:00:00Z", "2024-02-01T00:00:00Z", map[string]int64{"rpm": 100})
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
		for _, q := range []UsageQuery{
			{}, {Entity: "acme", Window: "weekly"}, {Entity: "\n"}, {Entity: "a", From: feb(2, 0), To: feb(1, 0)},
		} {
			if err := firstError(w.ns.Usage(t.Context(), q)); !errors.Is(err, limiter.ErrInvalid) {
				t.Errorf("%+v: %v", q, err)
			}
		}
		if _, err := w.ns.UsageSummary(t.Context(), UsageQuery{Entity: "acme"}); !errors.Is(err, limiter.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Events are listed from the newest, over pages, and the last one seen is a cursor.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	at := Scope{"acme", "gpt-4"}
	for i := range 7 {
		w.set(at, limiter.PerMinute("rpm", int64(i+1)))
		if i%2 == 0 {
			w.advance(-time.Millisecond) // also while the clock stands back
		}
	}
	about := Scope{Entity: "acme"}
	all := w.events(about)
	var capacities []any
	for _, e := range all {
		capacities = append(capacities, e.Details["limits"].([]any)[0].(map[string]any)["capacity"])
	}
	if fmt.Sprint(capacities) != "[7 6 5 4 3 2 1]" {
		t.Errorf("order %v", capacities)
	}
	cursor := ""
	var ids []string
	for range 10 {
		n := 0
		for e, err := range w.ns.Events(t.Context(), about, cursor) {
			w.must(err)
			ids, cursor = append(ids, e.ID), e.ID
			if n++; n == 2 {
				break
			}
		}
	}
	want := make([]string, len(all))
	for i, e := range all {
		want[i] = e.ID
	}
	if !slices.Equal(ids, want) {
		t.Errorf("by cursor %q, want %q", ids, want)
	}
	for _, s := range []Scope{{"a", "b"}, {Entity: "\n"}} {
		if err := firstError(w.ns.Events(t.Context(), s, "")); !errors.Is(err, limiter.ErrInvalid) {
			t.Error(err)
		}
	}
	if err := firstError(w.ns.Events(t.Context(), about, "x#y")); !errors.Is(err, limiter.ErrInvalid) {
		t.Error(err)
	}
}

// The events about everything are listed by time, between two instants, over pages and over
// more of them than one read returns.
func TestAllEvents(t *testing.T) {
	w := newWorld(t)
	begin := time.UnixMilli(w.now.Load())
	var want []string
	note := func(s Scope) {
		w.advance(time.Minute)
		want = append([]string{s.String()}, want...)
	}
	w.create(Entity{ID: "$org"})
	note(Scope{Entity: "$org"})
	for i := range 40 {
		for _, at := range []Scope{{}, {Resource: "$SYSTEM"}, {Entity: "acme", Resource: "gpt-4"}} {
			w.set(at, limiter.PerMinute("rpm", int64(i+1)))
			note(at)
		}
	}
	list := func(from, to time.Time) (got []string) {
		t.Helper()
		for e, err := range w.ns.AllEvents(t.Context(), from, to) {
			w.must(err)
			got = append(got, e.Scope.String())
		}
		return got
	}
	if got := list(time.Time{}, time.Time{}); !slices.Equal(got, want) {
		t.Errorf("%d events, want %d: %q", len(got), len(want), got)
	}
	last := len(want) - 1
	if got := list(begin, begin.Add(time.Minute)); !slices.Equal(got, want[last:]) {
		t.Errorf("in the first minute %q", got)
	}
	if got := list(begin.Add(time.Minute), begin.Add(3*time.Minute)); !slices.Equal(got, want[last-2:last]) {
		t.Errorf("in the two minutes after it %q", got)
	}
	if got := list(begin.Add(200*time.Minute), time.Time{}); len(got) > 0 {
		t.Errorf("of later %q", got)
	}
	for e, err := range w.ns.AllEvents(t.Context(), time.Time{}, time.Time{}) {
		w.must(err)
		w.db.SetHook(func(memdb.Op) (bool, error) { return false, errors.New("no rights") })
		if e.Resource != "gpt-4" || e.Entity != "acme" {
			t.Errorf("the newest is %+v", e)
		}
		break
	}
	if err := firstError(w.ns.AllEvents(t.Context(), time.Time{}, time.Time{})); err == nil {
		t.Error("no error where nothing can be read")
	}
}

// Whose name an event bears, in order: that of As, of the options, of the caller's
// identity, which is asked for once; nobody's if that fails.
func TestWhoDidIt(t *testing.T) {
	asked := 0
	caller := func(err error) func(*Options) {
		return func(o *Options) {
			o.Principal = ""
			o.Caller = func(context.Context) (string, error) { asked++; return "arn:aws:iam::1:role/x", err }
		}
	}
	for i, tt := range []struct {
		change func(*Options)
		as     string
		want   string
	}{
		{func(*Options) {}, "", "alice"},
		{func(*Options) {}, "bob", "bob"},
		{caller(nil), "", "arn:aws:iam::1:role/x"},
		{caller(nil), "bob", "bob"},
		{caller(errors.New("no")), "", ""},
	} {
		w := newWorld(t, tt.change)
		ns, err := w.ns.As(tt.as)
		w.must(err)
		asked = 0
		for range 3 {
			w.must(ns.SetLimits(t.Context(), Scope{}, rpm10))
		}
		if got := w.events(Scope{})[0].Principal; got != tt.want || asked > 1 {
			t.Errorf("case %d: by %q, want %q; asked %d times", i, got, tt.want, asked)
		}
	}
}

func TestULIDs(t *testing.T) {
	u := &ulids{}
	last := ""
	for i := range 1000 {
		id := u.next(start + int64(i/100))
		if len(id) != 26 || id <= last {
			t.Fatalf("%q after %q", id, last)
		}
		last = id
	}
	if got := encode([16]byte{}); got != "00000000000000000000000000" {
		t.Error(got)
	}
	var most [16]byte
	for i := range most {
		most[i] = 0xff
	}
	if got := encode(most); got != "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" {
		t.Error(got)
	}
	if id := (&ulids{}).next(1469918176385); id[:10] != "01ARYZ6S41" {
		t.Errorf("the time of the specification's example is %q", id[:10])
	}
}

// Of 10 tokens 4 are held for two seconds more: until then no more than 6 are left, and the
// rest refills from then on.
func TestPeekShowsWhatIsHeld(t *testing.T) {
	const now = 1_700_000_000_000
	l := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1_000, Period: 1_000}
	b := table.Shard{State: bucket.State{RF: now, HeldUntil: now + 2_000,
		Slots: []bucket.Slot{{Limit: l, Tokens: 6_000, Held: 4_000}}}}
	for _, c := range []struct{ after, left, held, full int64 }{
		{0, 6, 4, 6}, {1_000, 6, 4, 5}, {2_000, 6, 0, 4}, {6_000, 10, 0, 0},
	} {
		got := level(l, []table.Shard{b}, now+c.after)
		if got.Remaining != c.left || got.Held != c.held || got.FullIn != time.Duration(c.full)*time.Second {
			t.Errorf("after %d ms: %d left, %d held, full in %v", c.after, got.Remaining, got.Held, got.FullIn)
		}
	}
}
