package limiter

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An operator turns it on for a hot key, and off again, under processes whose options say
// nothing. What was taken by then is granted or told, so usage stays exact.
func TestStoredLimitsTurnPrefetchOnAndOff(t *testing.T) {
	for name, level := range map[string]struct{ entity, resource string }{
		"of the entity": {acme, gpt}, "of the namespace": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.process(Options{ConfigTTL: time.Second, MaxShards: 1})
				req := asks(Costs{"rps": 1})
				writes := func() int {
					w.pass(2 * time.Second) // the configuration is read again
					w.busy(l, req, 200)
					w.db.ResetStats()
					if granted, _ := w.busy(l, req, 500); granted != 500 {
						t.Fatalf("%d of 500 were granted", granted)
					}
					return w.db.Stats().WriteUnits
				}
				w.configure(l, level.entity, level.resource, rps1000)
				if n := writes(); n != 500 {
					t.Errorf("500 grants are %d writes, nothing being taken ahead", n)
				}
				w.configure(l, level.entity, level.resource, rps1000.WithAhead(500*time.Millisecond))
				if n := writes(); n > 25 {
					t.Errorf("500 grants are %d writes", n)
				}
				w.configure(l, level.entity, level.resource, rps1000)
				if n := writes(); n != 500 || l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment) != 0 {
					t.Errorf("500 grants are %d writes, and %d is held", n, l.desks.Of(acmeGPT).Left(0, "rps", l.desks.Moment))
				}
				if used, ended := w.countedOf(l, acme); used-ended != 2100 {
					t.Errorf("%d used, of which %d ended unspent; 2100 were granted", used, ended)
				}
			})
		})
	}
}

// What a limit says comes before what the options say, and the shortest of several limits holds.
func TestTheShortestTimeHolds(t *testing.T) {
	l := newWorld(t).process(Options{Ahead: time.Second})
	a, b, c := PerSecond("a", 5), PerSecond("b", 5).WithAhead(2*time.Second), PerSecond("c", 5).WithAhead(3*time.Second)
	d, e := PerSecond("d", 5).WithAhead(time.Second/2), PerSecond("e", 5)
	for _, tt := range []struct {
		limits []Limit
		want   int64
	}{{[]Limit{a}, 1000}, {[]Limit{a, b}, 2000}, {[]Limit{a, c, b}, 2000}, {[]Limit{c, d, e}, 500}, {[]Limit{c}, 3000}} {
		stored, err := storedLimits("limits", tt.limits)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.aheadOf(stored); got != tt.want {
			t.Errorf("%v: %d ms, want %d", tt.limits, got, tt.want)
		}
	}
}

// A time that is not accepted is an error that says what is.
func TestTimesToHoldAreChecked(t *testing.T) {
	for _, l := range []Limit{
		rpm10.WithAhead(time.Millisecond), rpm10.WithAhead(11 * time.Minute), rpm10.WithAhead(-time.Second),
		rpm10.WithAhead(time.Second + 1), rpm10.AsSoft().WithAhead(time.Second),
		InFlight("n", 2, time.Minute).WithAhead(time.Second), Quota("q", 5, Daily("")).WithAhead(time.Second),
	} {
		if err := l.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "10ms to 10m") {
			t.Errorf("%v: %v", l, err)
		}
	}
	l := rpm10.WithAhead(500 * time.Millisecond)
	if err := l.Validate(); err != nil || !strings.HasSuffix(l.String(), ", ahead 500ms") {
		t.Errorf("%v: %v", l, err)
	}
}

// A change of limits while tokens are held leaves usage exact: the first write after they have expired
// reports them, whether or not it is the one that brings the new limits.
func TestAChangeOfLimitsReportsWhatExpired(t *testing.T) {
	for name, between := range map[string]time.Duration{
		"after they expired": 5 * time.Second, "before": 10 * time.Millisecond,
	} {
		for _, next := range []Limit{PerSecond("rps", 2000), PerSecond("rps", 500), rps1000.AsSoft()} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.process(Options{Ahead: 500 * time.Millisecond, MaxShards: 1})
				granted := 0
				for heldOf(l, acme, "rps") < 10 && granted < 1000 {
					n, _ := w.busy(l, asks(Costs{"rps": 1}, rps1000), 1)
					granted += n
				}
				if granted == 1000 {
					t.Fatal("nothing is held")
				}
				w.pass(between)
				n, _ := w.busy(l, asks(Costs{"rps": 1}, next), 1)
				if granted += n; between < time.Second {
					w.pass(5 * time.Second)
					n, _ = w.busy(l, asks(Costs{"rps": 1}, next), 1)
					granted += n
				}
				held := heldOf(l, acme, "rps")
				if used, ended := w.countedOf(l, acme); used-ended-held != int64(granted) {
					t.Errorf("%s, to %v: %d used, of which %d expired and %d are held; %d were granted", name, next, used, ended,
						held, granted)
				}
			})
		}
	}
}

// A denial says that fewer are left than it wanted, also where others or this process's next turn are
// expected to have them first.
func TestADenialHasFewerLeftThanItWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.process(Options{Ahead: 500 * time.Millisecond}), w.process(Options{Ahead: 500 * time.Millisecond})
		limit := PerSecond("rps", 100)
		denied := 0
		for range 4000 {
			w.pass(time.Millisecond)
			for _, l := range []*Limiter{a, b} {
				_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1}, limit))
				l.desks.Wait()
				if e, ok := errors.AsType[*LimitError](err); ok {
					denied++
					if e.Remaining >= e.Wanted || e.Statuses[0].Remaining != e.Remaining {
						t.Fatalf("%v, status %+v", err, e.Statuses[0])
					}
				}
			}
		}
		if denied == 0 {
			t.Error("nothing is denied")
		}
	})
}
