package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// askew is a table whose answers show how far this process's clock is off.
type askew struct {
	*memdynamo.DB
	off     time.Duration
	watched *func(store.ClockChange)
}

func (a askew) Offset() time.Duration { return -a.off }

func (a askew) Watch(f func(store.ClockChange)) { *a.watched = f }

// process opens a limiter with a wrong clock.
func (a askew) process(w *world, opts Options) *Limiter {
	w.t.Helper()
	opts.Register, opts.Timeout = true, ages
	a.watched = new(func(store.ClockChange))
	l, err := open(context.Background(), a, &opts)
	check.Must(w.t, err)
	return l
}

// TestBrokenClocksAreCorrected: the clock of one of two processes is an hour off, or at the limit
// of what can be detected; together they are still granted only what the limit allows.
func TestBrokenClocksAreCorrected(t *testing.T) {
	for _, off := range []time.Duration{0, 61 * time.Second, -61 * time.Second, time.Hour, -time.Hour} {
		w := newWorld(t)
		process := func(off time.Duration) *Limiter {
			l := askew{DB: w.db, off: off}.process(w, Options{})
			l.opts.Now = func() time.Time { return time.UnixMilli(w.now.Load()).Add(off) }
			return l
		}
		ls := []*Limiter{process(0), process(off)}
		req := Request{Entity: "acme", Resource: "gpt-4", Costs: Costs{"rph": 1}, Limits: []Limit{PerHour("rph", 360)}}
		granted := 0
		for range 100 {
			for i := range 20 {
				switch _, err := ls[i%2].Acquire(t.Context(), req); {
				case err == nil:
					granted++
				case !errors.Is(err, ErrLimited):
					t.Fatal(err)
				}
			}
			w.advance(4 * time.Second)
		}
		if allowed := 360 + 40; granted > allowed || granted < allowed-5 {
			t.Errorf("clock off by %v: %d granted in 400 s, want the %d allowed", off, granted, allowed)
		}
	}
}

// The instant of a status is from the corrected clock, in leases and denials.
func TestStatusIsByTheCorrectedClock(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		w := newWorld(t)
		l := askew{DB: w.db, off: off}.process(w, Options{})
		l.opts.Now = func() time.Time { return w.time().Add(off) }
		for range 2 {
			lease, err := l.Acquire(t.Context(), asks(Costs{"q": 1}, Quota("q", 1, Daily(""))))
			var s Status
			if denied, ok := errors.AsType[*LimitError](err); ok {
				s = denied.Statuses[0]
			} else if err == nil {
				s = lease.Status()[0]
			}
			if !s.At.Equal(w.time()) || s.At.Add(s.ResetAfter).UTC().Hour() != 0 {
				t.Errorf("off by %v: counts from %v, whole after %v, want %v: %v", off, s.At, s.ResetAfter, w.time(), err)
			}
		}
	}
}

// A clock given by the caller is not corrected, whatever the table's answers show about the
// system's clock.
func TestGivenClockIsNotCorrected(t *testing.T) {
	w := newWorld(t)
	told := false
	given := time.UnixMilli(1_700_000_000_000)
	off := askew{DB: w.db, off: time.Hour}
	l := off.process(w, Options{Now: func() time.Time { return given },
		Observe: func(context.Context, Event) { told = true }})
	if got := l.now(); got != given.UnixMilli() {
		t.Errorf("now is %d, want the %d of the clock given", got, given.UnixMilli())
	}
	if told {
		t.Error("reported a correction that is not made")
	}
}

// Observers receive the correction of the clock before and after.
func TestObserverSeesChangesOfTheClock(t *testing.T) {
	w := newWorld(t)
	watched := new(func(store.ClockChange))
	var got []ClockInfo
	l, err := open(t.Context(), askew{w.db, time.Hour, watched}, &Options{
		Register: true, Timeout: ages, Observe: func(_ context.Context, e Event) {
			check.Equal(t, e.Kind, EventClock, "reported")
			got = append(got, e.Clock)
		},
	})
	check.Must(t, err)
	if d := time.Until(time.UnixMilli(l.now())); d < -61*time.Minute || d > -59*time.Minute {
		t.Errorf("now is %v from the system's, want an hour before", d)
	}
	(*watched)(store.ClockChange{Before: 1, After: 2, Reported: 3, Set: true})
	if len(got) != 1 || got[0] != (ClockInfo{Before: 1, After: 2, Reported: 3, Set: true}) {
		t.Errorf("reported %+v", got)
	}
	check.Must(t, check.Err(open(t.Context(), askew{w.db, time.Hour, watched}, &Options{Register: true,
		Timeout: ages})))
	(*watched)(store.ClockChange{}) // no observer
}

// When the clock is set back, tokens given back by others are noticed as soon as usual, not only
// when the clock reaches its old time again: a look sent in the "future" does not count.
func TestLooksGoOnWhenTheClockIsSetBack(t *testing.T) {
	for _, shards := range []int{1, 4} {
		w, l := newProcess(t, Options{})
		other, limit := w.bystander(l), PerDay("rpd", 40)
		req := asks(Costs{"rpd": 1}, limit)
		must(t, l, req)
		w.split(l, shards)
		taken := must(t, other, asks(Costs{"rpd": 8}, limit))
		drain(t, l, req)
		w.advance(2 * time.Second)
		if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrLimited) { // a look
			t.Fatal(err)
		}
		w.advance(-30 * time.Second)
		check.Must(t, taken.Rollback(t.Context()))
		waited := 0
		for ; drain(t, l, req) == 0 && waited < 60; waited++ {
			w.advance(time.Second)
		}
		if waited > 2*shards {
			t.Errorf("%d shards: tokens were noticed after %d s, want %d at most", shards, waited, 2*shards)
		}
	}
}

// If the clock is corrected while a request waits, as a process's clock is by the first answers,
// that does not deny it: its deadline is as far away as before.
func TestWaitWhenTheClockIsCorrected(t *testing.T) {
	for _, off := range []time.Duration{-time.Minute, time.Minute} {
		for _, line := range []int64{1, 21} { // in debt to others: with and without room in the queue
			inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
				other, l := process(), process()
				for range 20 + line {
					reserved(t, other, asks(Costs{"rpm": 1}, slots20))
				}
				by := off
				l.offset = func() time.Duration { return by }
				anyCall := func(memdynamo.Op) bool { return true }
				w.db.SetHook(onCall(anyCall, 0, func(memdynamo.Op) (bool, error) { by = 0; return true, nil }))
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				begin := time.Now()
				_, err := l.Wait(ctx, asks(Costs{"rpm": 1}, slots20))
				if took := time.Since(begin); err != nil || took > 5*time.Second {
					t.Errorf("off by %s, %d owed: %v after %s", off, line, err, took)
				}
			})
		}
	}
}

// A process whose clock was never set, or has run away, leaves buckets that others can read.
func TestClocksOutOfRangeLeaveReadableBuckets(t *testing.T) {
	for _, at := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(1 << 60), time.Unix(1<<62, 0)} {
		for _, limit := range []Limit{rpm10, jobs2, Quota("day", 10, Daily(""))} {
			w, l := newProcess(t, Options{})
			req := asks(Costs{limit.Name: 1}, limit)
			check.Must(t, must(t, l, req).Rollback(t.Context()))
			odd := w.process(Options{})
			odd.opts.Now = func() time.Time { return at }
			for _, p := range []*Limiter{odd, odd, l} {
				if _, err := p.Acquire(t.Context(), req); err != nil && !errors.Is(err, ErrLimited) {
					t.Errorf("%v at %d: %v", limit, at.Unix(), err)
				}
			}
			w.advance(48 * time.Hour)
			check.Must(t, check.Err(l.Acquire(t.Context(), req)), "%v after %d", limit, at.Unix())
		}
	}
}
