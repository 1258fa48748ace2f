package limiter

import (
	"errors"
	"testing"
	"time"
)

// At the edges of a window every process has the limit of the schedule: what is held is cut to a smaller capacity,
// and a larger one begins with what there is.
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
			if n := drain(t, who, req); n != want {
				t.Fatalf("%s, ahead %s: %d granted, want %d", when, ahead, n, want)
			}
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
		fine(t, lease.Rollback(t.Context()))
		req.Costs = Costs{"rph": 61}
		if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrTooLarge) {
			t.Errorf("more than it ever holds: %v", err)
		}
	}
}

// Who waits when a window begins is served by the limit that is in force from then on, and no later.
func TestWaitingForAWindow(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		opens := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		w.configure(l, "", gpt, PerHour("rph", 1).During(opens.Format("* 15 * * *"), "UTC", PerMinute("", 60)))
		req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rph": 1}}
		must(t, l, req)
		for n := range 3 {
			if _, err := l.Wait(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(opens); late < 0 || late > time.Duration(n+5)*time.Second {
				t.Errorf("request %d was granted %s after the window began", n, late)
			}
		}
	})
}

// In a window with a smaller capacity nobody is granted more than that: not by the first request of a bucket, not by
// one that brings the limit, nor by a process that has earlier limits; and a floor is of the largest capacity.
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
	if _, err := l.Acquire(t.Context(), low); !errors.Is(err, ErrTooLarge) {
		t.Errorf("60 of the 50 above the floor: %v", err)
	}
	other := ask("new", 1, PerMinute("rpm", 60))
	other.Costs = Costs{"rpm": 1}
	must(t, l, other)
	must(t, old, ask(acme, 1, PerHour("rph", 90)))
	must(t, l, ask(acme, 1, limit))
	must(t, old, ask(acme, 1, PerHour("rph", 90))) // it goes by the newer limit
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
		if n := drain(t, l, ask(c.req.Entity, 1, limit)); n != 10 {
			t.Errorf("%s: then %d granted, want 10", name, n)
		}
	}
	if _, err := l.Acquire(t.Context(), low); !errors.Is(err, ErrTooLarge) {
		t.Errorf("60 of the 50 above the floor, in the window: %v", err)
	}
}
