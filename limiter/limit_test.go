package limiter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

func TestLimitConstructors(t *testing.T) {
	if MaxTokens != validate.MaxTokens || MaxLimits != bucket.MaxLimits {
		t.Error("other bounds are checked than documented")
	}
	for _, c := range []struct {
		got  Limit
		want Limit
		text string
	}{
		{PerSecond("a", 5), Limit{Name: "a", Capacity: 5, Refill: 5, Period: time.Second}, "a: 5 per 1s, capacity 5"},
		{PerMinute("b", 5), Limit{Name: "b", Capacity: 5, Refill: 5, Period: time.Minute}, "b: 5 per 1m0s, capacity 5"},
		{PerHour("c", 5), Limit{Name: "c", Capacity: 5, Refill: 5, Period: time.Hour}, "c: 5 per 1h0m0s, capacity 5"},
		{PerDay("d", 5), Limit{Name: "d", Capacity: 5, Refill: 5, Period: 24 * time.Hour}, "d: 5 per 24h0m0s, capacity 5"},
		{PerDay("e", 5).WithCapacity(50), lim("e", 50, 5, 24*time.Hour), "e: 5 per 24h0m0s, capacity 50"},
		{Blocked("f"), lim("f", 1, 1, blockedPeriod), "f: blocked"},
		{Unlimited("g"), PerSecond("g", MaxTokens), "g: unlimited"},
		{Quota("h", 5, Daily("")), Limit{Name: "h", Capacity: 5, Reset: Daily("")}, "h: 5 each " + Daily("").String()},
		{Quota("spend.day", USD(500), Daily("")), Limit{Name: "spend.day", Capacity: 500_000_000, Reset: Daily("")},
			"spend.day: $500 each " + Daily("").String()},
		{PerSecond("i", 5).AsSoft(), Limit{Name: "i", Capacity: 5, Refill: 5, Period: time.Second, Soft: true},
			"i: 5 per 1s, capacity 5, soft"},
		{PerSecond("j", 5).WithFloor("batch", 40).WithAhead(time.Second), Limit{Name: "j", Capacity: 5, Refill: 5,
			Period: time.Second, Floors: "batch=40", Ahead: time.Second}, "j: 5 per 1s, capacity 5, floors batch=40, ahead 1s"},
	} {
		if c.got != c.want || c.got.String() != c.text {
			t.Errorf("%v, want %v", c.got, c.want)
		}
		if public(c.got.stored()) != c.got {
			t.Errorf("%v comes back as %v", c.got, public(c.got.stored()))
		}
	}
}

// Floors are sorted by class, however they were given, and the last one of a class counts.
func TestFloorsAreInOrder(t *testing.T) {
	for _, classes := range [][]string{{"a", "a-b", "a.b", "b"}, {"b", "a.b", "a-b", "a"}, {"a-b", "b", "a", "a.b"}} {
		l := PerMinute("rpm", 5).WithFloor("a-b", 99)
		for _, c := range classes {
			l = l.WithFloor(c, 10*len(c))
		}
		if want := "a=10,a-b=30,a.b=30,b=10"; l.Floors != want {
			t.Errorf("%q: %q, want %q", classes, l.Floors, want)
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for p, want := range map[Policy]string{PolicyDefault: "default", PolicyBlock: "block", PolicyAllow: "allow",
		PolicyLocal: "local", 7: "Policy(7)"} {
		check.Equal(t, p.String(), want)
	}
}

// The public number is spelled out; it equals the stored bound.
func TestMaxLimitsEqualsTheStoredBound(t *testing.T) {
	if MaxLimits != bucket.MaxLimits {
		t.Errorf("MaxLimits is %d, a bucket has %d", MaxLimits, bucket.MaxLimits)
	}
}

// lim is a rate.
func lim(name string, capacity, refill int64, period time.Duration) Limit {
	return Limit{Name: name, Capacity: capacity, Refill: refill, Period: period}
}

// The accepted numbers of a limit, up to the bounds. An error names the accepted values.
func TestBoundsOfLimits(t *testing.T) {
	const decade = 10 * 366 * 24 * time.Hour
	accepted := map[string]string{
		"Capacity": "1 to 1000000000000000 tokens", "Refill": "1 to 1000000000000000 tokens",
		"Period": "a whole number of seconds from 1s to 87840h0m0s",
		"Ahead":  "10ms to 10m, for a rate that is not soft; or zero",
		"Floors": "8 classes at most, by name, with 0 to 99 percent",
	}
	name64 := strings.Repeat("n", 64)
	for _, c := range []struct {
		limit Limit
		bad   string // the field in the error; empty: none
	}{
		{lim("a", 1, 1, time.Second), ""}, {lim(name64, MaxTokens, MaxTokens, decade), ""},
		{lim("Z9_.-", 1, 1, time.Minute), ""},
		{lim("a", 0, 1, time.Second), "Capacity"}, {lim("a", MaxTokens+1, 1, time.Second), "Capacity"},
		{lim("a", 1, 0, time.Second), "Refill"}, {lim("a", 1, MaxTokens+1, time.Second), "Refill"},
		{lim("a", 1, 1, 0), "Period"}, {lim("a", 1, 1, time.Second-1), "Period"}, {lim("a", 1, 1, time.Second+1), "Period"},
		{lim("a", 1, 1, decade+time.Second), "Period"},
		{lim("", 1, 1, time.Second), "Name"}, {lim(name64+"n", 1, 1, time.Second), "Name"},
		{lim("9", 1, 1, time.Second), "Name"},
		{lim("@", 1, 1, time.Second), "Name"}, {lim("[", 1, 1, time.Second), "Name"}, {lim("`", 1, 1, time.Second), "Name"},
		{lim("{", 1, 1, time.Second), "Name"}, {lim("a/", 1, 1, time.Second), "Name"},
		{lim("a:", 1, 1, time.Second), "Name"},
		{lim("wcu", 1, 1, time.Second), "Name"}, {lim("a0", 1, 1, time.Second), ""}, {lim("z", 1, 1, time.Second), ""},
		{lim("A", 1, 1, time.Second), ""},
		{PerMinute("a", 1).WithAhead(10 * time.Millisecond), ""}, {PerMinute("a", 1).WithAhead(10 * time.Minute), ""},
		{PerMinute("a", 1).WithAhead(9 * time.Millisecond), "Ahead"}, {PerMinute("a", 1).WithAhead(-time.Second), "Ahead"},
		{PerMinute("a", 1).WithAhead(10*time.Minute + time.Millisecond), "Ahead"},
		{PerMinute("a", 1).WithAhead(20*time.Millisecond + 1), "Ahead"},
		{PerMinute("a", 1).AsSoft().WithAhead(time.Second), "Ahead"},
		{Quota("a", 1, Daily("")).WithAhead(time.Second), "Ahead"},
		{InFlight("a", 1, time.Minute).WithAhead(time.Second), "Ahead"}, {PerMinute("a", 1).WithFloor("b", 99), ""},
		{PerMinute("a", 1).WithFloor("b", 100), "Floors"}, {PerMinute("a", 1).WithFloor("b", -1), "Floors"},
	} {
		err := c.limit.Validate()
		if c.bad == "" && err != nil || c.bad != "" && (!errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), c.bad) || !strings.Contains(err.Error(), accepted[c.bad])) {
			t.Errorf("%+v: %v, want it to name its %q, and %q", c.limit, err, c.bad, accepted[c.bad])
		}
	}
}

// An invalid limit is refused with the name of its field, its value and the accepted values.
func TestInvalidLimitsAreRefused(t *testing.T) {
	day := PerMinute("rpm", 60)
	during := func(cron string, in Limit) Limit { return day.During(cron, "UTC", in) }
	five := Limit{Capacity: 5}
	quota := func(c Calendar) Limit { return Quota("m", 1, c) }
	for _, c := range []struct {
		limit Limit
		says  []string
	}{
		{Quota("m", 0, Daily("")), []string{"Capacity", "0"}},
		{quota(Daily("Mars/Olympus")), []string{"Reset", "Mars/Olympus", "IANA"}},
		{quota(Cron("0 0 30 2 *", "")), []string{"Reset", "0 0 30 2 *", "never comes"}},
		{quota(Cron("0 0 * *", "")), []string{"Reset", "0 0 * *"}},
		{quota(Monthly(32, "")), []string{"Reset", "32", "31"}},
		{quota(FromFirstUse(1500 * time.Millisecond)), []string{"Reset", "1.5", "seconds"}},
		{Limit{Name: "m", Capacity: 1, Refill: 1, Period: time.Hour, Reset: Daily("")},
			[]string{"Refill", "Period", "1 per 1h0m0s", "Reset"}},
		{Limit{Name: "m", Capacity: 1, Refill: 7, Reset: Daily("")}, []string{"Refill", "Period", "7 per 0s", "Reset"}},
		{Limit{Name: "m", Capacity: 1, Period: time.Hour, Reset: Daily("")},
			[]string{"Refill", "Period", "0 per 1h0m0s", "Reset"}},

		{InFlight("jobs", 1, 4*time.Second),
			[]string{`Period is 4s, want an epoch of a whole number of seconds from 5s to 10m`}},
		{InFlight("jobs", 1, 601*time.Second), []string{`Period is 10m1s`}},
		{InFlight("jobs", 1, 5500*time.Millisecond), []string{`Period is 5.5s`}},
		{InFlight("jobs", 0, epoch), []string{`Capacity is 0`}},
		{jobs2.AsSoft(), []string{`Soft is true, want false beside InFlight`}},
		{Limit{Name: "jobs", Capacity: 1, Refill: 3, Period: epoch, InFlight: true}, []string{`Refill and Reset is 3 and`}},
		{Limit{Name: "jobs", Capacity: 1, Period: epoch, Reset: Daily(""), InFlight: true},
			[]string{`Reset is 0 and "m0h0@UTC"`}},

		{during("61 * * * *", five), []string{"Schedule", `cron "61 * * * * 5 0 0s": the minute "61"`}},
		{during("0 0 30 2 *", five), []string{"Schedule", `never comes`}},
		{during("9-17", five), []string{"Schedule", `want five fields`}},
		{day.During("* 9 * * *", "Mars/Olympus", five), []string{"Schedule", `time zone "Mars/Olympus"`}},
		{during("* 9 * * *", five).During("* 8 * * *", "Asia/Tokyo", five),
			[]string{"Schedule", `all windows in one time zone`}},
		{during("* 9 * * *", Limit{}), []string{"Schedule", `some of Capacity and Refill`}},
		{during("* 9 * * *", Limit{Period: 1500 * time.Millisecond}), []string{"Schedule", `a whole number of seconds`}},
		{Limit{Name: "rpm", Capacity: 1, Refill: 1, Period: time.Second, Schedule: "h9c-5@UTC"},
			[]string{"Schedule", `the parameter "c-5"`}},
		{Limit{Name: "rpm", Capacity: 2000, Refill: 1, Period: time.Second, Schedule: "s1000000000000000@UTC"},
			[]string{"Schedule", `at most 1000000000000000 tokens`}},
		{during("* 9 * * *", Limit{Period: 20 * validate.MaxPeriod}), []string{"Schedule", `a period of 87840h0m0s`}},
		{Quota("rpm", 5, Daily("")).During("* 9 * * *", "UTC", five), []string{"Schedule", `only a rate has a schedule`}},
		{InFlight("jobs", 5, time.Minute).During("* 9 * * *", "UTC", five),
			[]string{"Schedule", `none: only a rate has a schedule`}},

		{day.WithFloor("batch", 100), []string{"Floors", `"batch=100"`}}, {day.WithFloor("", 10), []string{"Floors", `"=10"`}},
		{day.WithFloor("a=1,batch", 60), []string{"Floors"}}, {day.WithFloor("batch=40,free", 60), []string{"Floors"}},
		{day.WithFloor(",", 60), []string{"Floors"}}, {day.WithFloor("=", 60).WithFloor("zero", 0), []string{"Floors"}},
		{day.WithFloor("a,", 60).WithFloor("zero", 0), []string{"Floors"}}, {day.WithFloor("a=1", 60), []string{"Floors"}},
	} {
		err := c.limit.Validate()
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", c.limit, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v\ndoes not say %q", err, s)
			}
		}
	}
}

// Limits of every kind are accepted, distinguished, and read back unchanged.
func TestValidLimitsRoundTrip(t *testing.T) {
	scheduled := PerMinute("rpm", 60).During("* 9-16 * * 1-5", "Europe/Berlin", PerMinute("", 600)).
		During("* * * * SAT,SUN", "Europe/Berlin", Limit{Capacity: 10})
	check.Equal(t, scheduled.String(), "rpm: 60 per 1m0s, capacity 60, "+
		"during * 9-16 * * 1-5 Europe/Berlin capacity 600 refill 600 seconds 60; "+
		"during * * * * 6,7 Europe/Berlin capacity 10")
	with := func(l Limit) Limit { return l.WithFloor("batch", 50).WithAhead(time.Second) }
	for _, l := range []Limit{Quota("a", 5, Monthly(1, "")), Quota("b", USD(500), Monthly(31, "Asia/Tokyo")),
		Quota("c", 1, Weekly(0, "")), Quota("d", 1, Quarterly("Europe/Berlin")),
		Quota("e", 1, Yearly(time.February, 29, "")),
		Quota("f", 1, Cron("0 6 * * MON-FRI", "")), Quota("g", 1, FromFirstUse(5*time.Hour)), scheduled,
		InFlight("jobs", 1, 5*time.Second), InFlight("jobs", 1, 10*time.Minute), Unlimited("unlimited"), Blocked("blocked"),
		with(Unlimited("unlimited")), with(Blocked("blocked")), with(PerMinute("rpm", 1)),
		{Name: "slow", Capacity: 1, Refill: 1, Period: validate.MaxPeriod}} {
		if err := l.Validate(); err != nil || public(l.stored()) != l || l.IsQuota() != (l.Reset != "") ||
			l.IsBlocked() != (l.Name == "blocked") || l.IsUnlimited() != (l.Name == "unlimited") {
			t.Errorf("%v: %v", l, err)
		}
	}
}

// TestBlockedLimitsDeny: every request for tokens of a blocked limit is denied, at any cost, and
// whether the limit is stored or the request's own, without a call and without a bucket; other
// requests are not.
func TestBlockedLimitsDeny(t *testing.T) {
	for _, own := range [][]Limit{nil, {Blocked("rpm"), PerMinute("tpm", 10)}} {
		w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
		w.configure(l, "", "", Blocked("rpm"), PerMinute("tpm", 10))
		before := w.db.Snapshot()
		for _, cost := range []int64{1, 2, MaxTokens} {
			_, err := l.Acquire(t.Context(),
				Request{Entity: acme, Resource: gpt, Limits: own, Costs: Costs{"rpm": cost, "tpm": 1}})
			denied, ok := errors.AsType[*LimitError](err)
			if !ok || denied.Limit != "rpm" || denied.Wanted != cost || denied.Remaining != 0 ||
				denied.RetryAfter < 3650*24*time.Hour || denied.RetryAfter > validate.MaxPeriod {
				t.Fatalf("cost %d: %v", cost, err)
			}
			if !denied.Never() || !strings.HasSuffix(denied.Error(), " wanted, 0 left, never granted") {
				t.Errorf("cost %d: never is %v, in %v", cost, denied.Never(), denied)
			}
			s := denied.Statuses
			if len(s) != 2 || s[0].RetryAfter != -1 || s[0].Remaining != 0 || s[0].RefillAfter != longestWait ||
				s[0].ResetAfter != longestWait || s[1].Remaining != 10 || s[1].RetryAfter != 0 {
				t.Errorf("statuses %+v", s)
			}
		}
		w.sameTable(before)
		for _, costs := range []Costs{{"tpm": 1}, {"rpm": 0, "tpm": 1}} {
			lease, err := l.Acquire(t.Context(), Request{Entity: acme, Resource: gpt, Limits: own, Costs: costs})
			check.Must(t, err)
			if s := lease.Status()[0]; s.RetryAfter != 0 || s.Remaining != 0 || s.RefillAfter != longestWait ||
				s.ResetAfter != longestWait {
				t.Errorf("taking nothing from it: %+v", s)
			}
		}
	}
}

// The log of a denial gives the wait, or says that waiting does not help.
func TestEventsSayNeverInWords(t *testing.T) {
	for denied, want := range map[*LimitError]string{
		{RetryAfter: time.Second}: "retry_after=1s", {RetryAfter: longestWait}: "never=true",
		{RetryAfter: blockedPeriod, Statuses: []Status{{RetryAfter: -1}}}: "never=true",
	} {
		got := (Event{Kind: EventAcquire, Err: denied}).LogValue().Group()
		check.Equal(t, got[len(got)-1].String(), want, "%v: ends with", denied)
	}
}

// At the edges of a window every process uses the limit of the schedule: the level is cut to a
// smaller capacity, and stays the same with a larger one.
func TestALimitChangesByItsSchedule(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Minute} {
		w := newWorld(t)
		opens := w.time().Truncate(time.Hour).Add(time.Hour) // the cron expression names this hour
		limit := PerHour("rph", 10).During(opens.Format("* 15 * * *"), "", PerHour("", 60))
		l, other := w.process(Options{Ahead: ahead}), w.process(Options{})
		w.configure(l, "", gpt, limit, PerMinute("rpm", 600))
		req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rph": 1}}
		take := func(who *Limiter, want int, when string) {
			t.Helper()
			check.MustEqual(t, drain(t, who, req), want, "%s, ahead %s: granted", when, ahead)
		}
		take(l, 10, "before the window")
		denied := deniedBy(t, other, Request{Entity: acme, Resource: gpt, Costs: Costs{"rph": 30}})
		if denied.RetryAfter.Round(time.Second) != opens.Add(22*time.Minute+14*time.Second).Sub(w.time()) ||
			denied.Statuses[0].Capacity != 10 ||
			denied.Statuses[0].ChangesAfter != opens.Sub(w.time())+time.Second || denied.Statuses[1].ChangesAfter != 0 {
			t.Fatalf("30 of 10, which are there 22 minutes after %s: %v, %+v", opens, denied, denied)
		}
		w.advance(opens.Sub(w.time()) + time.Second) // the margin
		until := w.time().Sub(time.UnixMilli(1_700_000_000_000))
		take(other, int(until/(6*time.Minute)), "as the window begins") // 10 an hour until then
		w.advance(20 * time.Minute)
		take(l, 20, "in the window")
		w.advance(39*time.Minute + 58*time.Second)
		lease := must(t, other, req)
		if s := lease.Status()[0]; s.Capacity != 60 || s.Remaining != 39 || s.ChangesAfter > 2*time.Second {
			t.Fatalf("before the window ends: %+v", s)
		}
		w.advance(2 * time.Second)
		take(l, 10, "as the window ends") // of 38
		w.advance(12 * time.Minute)
		take(other, 2, "behind the window")
		check.Must(t, lease.Rollback(t.Context()))
		req.Costs = Costs{"rph": 61}
		check.Is(t, check.Err(l.Acquire(t.Context(), req)), ErrTooLarge, "more than it ever holds")
	}
}

// A request that waits when a window begins is served by the limit in force from then on, and no
// later.
func TestWaitingForAWindow(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		opens := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		w.configure(l, "", gpt, PerHour("rph", 1).During(opens.Format("* 15 * * *"), "UTC", PerMinute("", 60)))
		req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rph": 1}}
		must(t, l, req)
		for n := range 3 {
			check.Must(t, check.Err(l.Wait(t.Context(), req)))
			if late := time.Since(opens); late < 0 || late > time.Duration(n+5)*time.Second {
				t.Errorf("request %d was granted %s after the window began", n, late)
			}
		}
	})
}

// In a window with a smaller capacity, no more than that is granted: not with the first request of
// a bucket, not with a request that brings the limit, nor by a process with earlier limits; and a
// floor is relative to the largest capacity.
func TestASmallWindowGrantsNoMore(t *testing.T) {
	w := newWorld(t)
	opens := w.time().Truncate(time.Hour).Add(time.Hour)
	limit := PerHour("rph", 100).During(opens.Format("* 15 * * *"), "", PerHour("", 10)).WithFloor("low", 50)
	ask := func(entity string, n int64, limits ...Limit) Request {
		return Request{Entity: entity, Resource: gpt, Costs: Costs{"rph": n}, Limits: limits}
	}
	l, old := w.process(Options{}), w.process(Options{})
	w.configure(l, "", gpt, limit)
	low := ask("first", 60)
	low.Class = "low"
	check.Is(t, check.Err(l.Acquire(t.Context(), low)), ErrTooLarge, "60 of the 50 above the floor")
	other := ask("new", 1, PerMinute("rpm", 60))
	other.Costs = Costs{"rpm": 1}
	must(t, l, other)
	must(t, old, ask(acme, 1, PerHour("rph", 90)))
	must(t, l, ask(acme, 1, limit))
	must(t, old, ask(acme, 1, PerHour("rph", 90))) // it uses the newer limit
	w.advance(opens.Sub(w.time()) + 2*time.Second)
	for name, c := range map[string]struct {
		by  *Limiter
		req Request
	}{
		"first": {l, ask("first", 60)}, "brings it": {l, ask("new", 60, limit)},
		"earlier limits": {old, ask(acme, 50, PerHour("rph", 90))},
	} {
		if lease, err := c.by.Acquire(t.Context(), c.req); !errors.Is(err, ErrLimited) {
			t.Errorf("%s: %v, %v, want a denial: 10 are in force", name, lease, err)
		}
		check.Equal(t, drain(t, l, ask(c.req.Entity, 1, limit)), 10, "%s: then granted", name)
	}
	check.Is(t, check.Err(l.Acquire(t.Context(), low)), ErrTooLarge, "60 of the 50 above the floor, in the window")
}
