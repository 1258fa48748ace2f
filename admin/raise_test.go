package admin

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// tries takes one token at a time until it is denied, so many times, and returns how many were granted.
func (w *world) tries(l *limiter.Limiter, times int, apart time.Duration) (granted int) {
	w.Helper()
	for range times {
		w.advance(apart)
		for {
			_, err := acquire(l, limiter.Costs{"rpm": 1})
			if errors.Is(err, limiter.ErrLimited) {
				break
			}
			w.must(err)
			granted++
		}
	}
	return granted
}

// 60 a minute, inherited from the namespace, is raised by 120 for 30 seconds: three a second while it lasts, and one
// before and after. Other processes and others' limits see nothing of it at any other time.
func TestARaiseIsInForceUntilItsEnd(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60))
	l := w.limiter()
	check.MustEqual(t, w.tries(l, 1, time.Second)+w.tries(l, 10, time.Second), 60+10, "before the raise")
	ends := w.table.now() + 30_000
	got, err := w.ns.Raise(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 120}, time.UnixMilli(ends))
	want := []Raise{{"rpm", 120, time.UnixMilli(ends).UTC()}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	if w.bucket("acme", "gpt-4", 0).Item()["b_rpm_more"] == nil {
		t.Error("it is not brought to the bucket")
	}
	b := w.peek("acme", "gpt-4")
	if level := b[0].Levels[0]; level.Capacity != 180 || level.Refill != 180 || !level.Stored ||
		!slices.Equal(level.Raises, want) || level.ChangesIn != 31*time.Second || b[0].From != (Scope{}) {
		t.Errorf("%+v", level)
	}
	c, err := w.ns.Config(t.Context(), Scope{"acme", "gpt-4"})
	if err != nil || c.Limits != nil || !slices.Equal(c.Raises, want) ||
		!slices.Equal(c.Lines(), []string{"rpm: 120 more until 2023-11-14T22:14:01Z"}) {
		t.Errorf("%+v, %v, %q", c, err, c.Lines())
	}
	if r, err := w.ns.Resolve(t.Context(), "acme", "gpt-4"); err != nil || !slices.Equal(r.Raises, want) ||
		r.From.Scope != (Scope{}) {
		t.Errorf("%+v, %v", r, err)
	}
	if e := w.events(Scope{Entity: "acme"}); len(e) != 1 || e[0].Action != "limits_raised" || e[0].Resource != "gpt-4" {
		t.Errorf("events %+v", e)
	}
	lease, err := acquire(l, limiter.Costs{"rpm": 0})
	w.must(err)
	if s := lease.Status()[0]; s.Capacity != 180 || s.ChangesAfter != 31*time.Second {
		t.Errorf("%+v", s)
	}
	check.Equal(t, w.tries(l, 10, time.Second), 30, "in ten seconds of the raise")
	check.Equal(t, w.tries(w.limiter(), 20, time.Second), 60, "in twenty seconds of another process")
	w.take("other", "gpt-4", limiter.Costs{"rpm": 60})
	if n := w.tries(l, 11, time.Second); n != 3+10 { // an edge is a second later
		t.Errorf("%d around its end, want 13", n)
	}
	b = w.peek("acme", "gpt-4")
	if b[0].Levels[0].Capacity != 60 || b[0].Levels[0].Raises != nil || b[0].Levels[0].ChangesIn != 0 {
		t.Errorf("after its end: %+v", b[0].Levels[0])
	}
	if it := w.bucket("acme", "gpt-4", 0).Item(); it["vu"] != nil || it["b_rpm_more"] != nil {
		t.Errorf("the bucket keeps %v", it)
	}
	w.must(check.Err(w.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 5}, 2))) // two minutes
	r := item.Reader{It: w.db.Item(w.ns.config(Scope{"acme", "gpt-4"}).Key())}
	check.Equal(t, r.Str("l_rpm_more"), fmt.Sprintf("5:%d", w.table.now()+120_000), "stored; what has ended goes")
	w.hasNoOrphans()
}

// A quota of 40 a day is raised by 8 for two days, on one shard and on four: 48 today at once, 48 tomorrow, and 40 on
// the day after. An instant within a day is the end of that day.
func TestARaisedQuotaIsWholeInEachPeriod(t *testing.T) {
	for _, splits := range []int{0, 2} {
		for _, instant := range []bool{false, true} {
			w := newWorld(t)
			w.set(Scope{Entity: "acme"}, limiter.Quota("rpm", 40, limiter.Daily("")), limiter.PerHour("rph", 9))
			if splits > 0 {
				w.split("acme", "gpt-4", splits)
				w.must(check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4"))) // it has taken one
			}
			l := w.limiter()
			granted := w.tries(l, 5, 1100*time.Millisecond)
			midnight := time.UnixMilli(start).UTC().Truncate(24 * time.Hour)
			raise := func() ([]Raise, error) {
				return w.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8}, 2)
			}
			if instant {
				raise = func() ([]Raise, error) {
					return w.ns.Raise(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8}, midnight.Add(30*time.Hour))
				}
			}
			got, err := raise()
			if err != nil || got[0].Until != midnight.Add(48*time.Hour) {
				t.Fatalf("%v, %v", got, err)
			}
			if granted += w.tries(l, 5, 1100*time.Millisecond); granted != 48 {
				t.Errorf("%d shards: %d on the first day", 1<<splits, granted)
			}
			for day, want := range []int{48, 40, 40} {
				w.now.Store(midnight.Add(time.Duration(day+1)*24*time.Hour + time.Second).UnixMilli())
				if n := w.tries(l, 5, 1100*time.Millisecond) + w.tries(w.limiter(), 4, 1100*time.Millisecond); n != want {
					t.Errorf("%d shards: %d on day %d, want %d", 1<<splits, n, day+2, want)
				}
			}
		}
	}
}

// A raise with an id is made once, and others add to it. The id of a raise is not that of a credit.
func TestARaiseIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60))
	raise := func(id string) []Raise {
		ns := w.once(id)
		out, err := ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8}, 3)
		w.must(err)
		w.wants(check.Err(ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8})), limiter.ErrInvalid)
		return out
	}
	first := raise("n-1")
	w.advance(time.Minute)
	check.Slices(t, raise("n-1"), first)
	raise("n-2")
	c, err := w.ns.Config(t.Context(), Scope{"acme", "gpt-4"})
	if n := len(w.events(Scope{Entity: "acme"})); err != nil || len(c.Raises) != 2 || n != 2 {
		t.Errorf("%+v, %v, %d events", c.Raises, err, n)
	}
}

// A mistyped raise is ended at once, in the bucket too. What was used of a quota
// stays used.
func TestRaisesAreEndedByHand(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60), limiter.Quota("runs", 10, limiter.Monthly(1, "UTC")))
	l := w.limiter()
	w.must(check.Err(w.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 6000, "runs": 1000}, 9)))
	req := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"runs": 4}}
	w.must(check.Err(l.Acquire(t.Context(), req)))
	check.Is(t, w.ns.EndRaises(t.Context(), "acme", "gpt-4", "tpm"), ErrNotFound, "no such limit")
	for range 2 {
		w.must(w.ns.EndRaises(t.Context(), "acme", "gpt-4", "runs"))
	}
	b := w.peek("acme", "gpt-4")
	if rpm, runs := b[0].Levels[0], b[0].Levels[1]; rpm.Capacity != 6060 || runs.Capacity != 10 ||
		runs.Remaining != 6 || runs.Raises != nil {
		t.Errorf("%+v, %+v", rpm, runs)
	}
	w.must(w.ns.EndRaises(t.Context(), "acme", "gpt-4"))
	_, err := w.ns.Config(t.Context(), Scope{"acme", "gpt-4"})
	e := w.events(Scope{Entity: "acme"})
	if !errors.Is(err, ErrNotFound) || len(e) != 3 || e[0].Action != "raises_ended" {
		t.Errorf("%v, %+v", err, e)
	}
	w.advance(time.Second)
	req.Costs = limiter.Costs{"rpm": 61}
	check.Is(t, check.Err(l.Acquire(t.Context(), req)), limiter.ErrTooLarge, "61 of 60")
}

// What cannot be raised is refused by name, and nothing is stored.
func TestLimitsThatCannotBeRaisedAreRefused(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60), limiter.Blocked("img"), limiter.Unlimited("free"),
		limiter.Quota("day", 5, limiter.Daily("")), limiter.InFlight("jobs", 5, 30*time.Second),
		limiter.Quota("use", 5, limiter.FromFirstUse(time.Hour)))
	now := time.UnixMilli(start)
	for _, c := range []struct {
		limit string
		more  int64
		until time.Time
		is    error
		want  string
	}{
		{"rpm", 1, now, limiter.ErrInvalid, `until of rpm is "2023-11-14T22:13:20Z", want a time after now`},
		{"day", 1, now, limiter.ErrInvalid, `until of day is "2023-11-14T22:13:20Z", want a time after now`},
		{"rpm", 1, now.Add(3661 * day), limiter.ErrInvalid, "at most 3660 days"},
		{"rpm", limiter.MaxTokens, now.Add(day), limiter.ErrInvalid, "tokens of rpm is 1000000000000000, want less than"},
		{"free", 1, now.Add(day), limiter.ErrInvalid, "tokens of free is 1, want less than"},
		{"img", 1, now.Add(day), limiter.ErrInvalid, `limit is "img", want a rate that is not blocked`},
		{"jobs", 1, now.Add(day), limiter.ErrInvalid, `limit is "jobs", want a rate`},
		{"use", 1, now.Add(day), limiter.ErrInvalid, `limit is "use", want a rate`},
		{"tpm", 1, now.Add(day), ErrNotFound, `limit "tpm", acme/gpt-4 has day, free, img, jobs, rpm, use`},
	} {
		before := w.db.Snapshot()
		costs := limiter.Costs{"rpm": 1}
		costs[c.limit] = c.more
		got, err := w.ns.Raise(t.Context(), "acme", "gpt-4", costs, c.until)
		w.refused(err, c.is, c.want, c.limit)
		check.Equal(t, len(got), 0, "%s: raised", c.limit)
		check.Equal(t, len(w.db.Items()), len(before.Items()), "%s: something is stored", c.limit)
	}
	raise := func() error {
		_, err := w.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 1}, 1)
		return err
	}
	for range 16 {
		w.must(raise())
	}
	w.refused(raise(), limiter.ErrInvalid, "at most 16 that last", "a seventeenth")
}

// A raise outlives a change of the limits, and a scope that has nothing else is left with it when they go.
func TestARaiseStaysWhenLimitsChange(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60))
	w.set(Scope{"acme", "gpt-4"}, limiter.PerMinute("rpm", 10))
	w.must(check.Err(w.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 5}, 9)))
	capacity := func() int64 { return w.peek("acme", "gpt-4")[0].Levels[0].Capacity }
	for _, c := range []struct {
		do   func() error
		want int64
	}{
		{func() error { return nil }, 15},
		{func() error { return w.ns.SetLimits(t.Context(), Scope{"acme", "gpt-4"}, limiter.PerMinute("rpm", 20)) }, 25},
		{func() error { _, err := w.ns.SetAccess(t.Context(), Scope{"acme", "gpt-4"}, AccessEnabled); return err }, 25},
		{func() error { return w.ns.DeleteLimits(t.Context(), Scope{"acme", "gpt-4"}) }, 65},
		{func() error { return w.ns.SetLimits(t.Context(), Scope{}, limiter.InFlight("rpm", 7, 30*time.Second)) }, 7},
		{func() error { return w.ns.SetLimits(t.Context(), Scope{}, limiter.PerMinute("rpm", 30)) }, 35},
	} {
		w.must(c.do())
		check.Equal(t, capacity(), c.want)
	}
}

// A process that has read the limits a minute ago never grants more than the raised limit, and less for as long as it
// has not seen the raise; one that has read the raise grants nothing of it behind its end.
func TestARaiseAndAProcessWithOldLimits(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60))
	open := func() *limiter.Limiter {
		l, err := limiter.Open(t.Context(), twin{DB: w.db}, "t", &limiter.Options{Namespace: "prod", Timeout: ages,
			ConfigTTL: time.Hour, Now: func() time.Time { return time.UnixMilli(w.now.Load()) }})
		w.must(err)
		return l
	}
	before, unused := open(), open()
	w.tries(before, 1, time.Second)
	w.must(check.Err(acquire(unused, limiter.Costs{"rpm": 0}))) // it reads the limits
	end := time.UnixMilli(w.table.now() + 59_000)
	w.must(check.Err(w.ns.Raise(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 120}, end)))
	during := open()
	for range 10 {
		if n := w.tries(before, 1, time.Second) + w.tries(unused, 1, time.Second) + w.tries(during, 1, time.Second); n > 9 {
			t.Errorf("%d in three seconds of the raise, want at most 9", n)
		}
	}
	check.Equal(t, w.tries(during, 10, time.Second), 30,
		"in ten seconds of the raise, want 30: the others have not taken it away")
	w.advance(20 * time.Second) // the end, and the second behind it
	w.tries(before, 1, time.Second)
	for range 10 {
		if n := w.tries(during, 1, time.Second) + w.tries(before, 1, time.Second); n > 2 {
			t.Errorf("%d in two seconds behind the raise, want 2", n)
		}
	}
	if n := w.tries(unused, 10, time.Second); n > 10 {
		t.Errorf("%d in ten seconds of a process that has never seen it, want 10", n)
	}
}

// What has ended goes with the next write of the scope, and one that has nothing else is not listed any more.
func TestRaisesThatHaveEndedGo(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 60))
	at := Scope{"acme", "gpt-4"}
	w.must(check.Err(w.ns.RaiseFor(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 5}, 1)))
	w.advance(62 * time.Second)
	w.must(w.ns.DeleteLimits(t.Context(), at))
	check.Equal(t, len(w.db.Item(w.ns.config(at).Key())), 0, "attributes that are left")
	w.registered(at, false)
}
