package limiter

import (
	"testing"
	"time"
)

// An operator turns it on for a hot key, and off again, under processes whose options say
// nothing. What was taken by then is granted or told, so usage stays exact.
func TestStoredLimitsTurnPrefetchOnAndOff(t *testing.T) {
	for name, level := range map[string]struct{ entity, resource string }{
		"of the entity": {acme, gpt}, "of the namespace": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{ConfigTTL: time.Second, MaxShards: 1}, func(t *testing.T, w *world, l *Limiter) {
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
		fine(t, err)
		if got := l.aheadOf(stored); got != tt.want {
			t.Errorf("%v: %d ms, want %d", tt.limits, got, tt.want)
		}
	}
}
