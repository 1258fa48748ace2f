package limitertest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

var ask = limiter.Request{
	Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
	Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)},
}

// A bucket is emptied, denies, and refills when the test moves the clock.
func TestTheClockIsTheTests(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	for range 2 {
		if _, err := l.Acquire(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.Acquire(t.Context(), ask)
	denied, ok := errors.AsType[*limiter.LimitError](err)
	if !ok || denied.RetryAfter != 30*time.Second {
		t.Fatalf("third of two: %v", err)
	}
	table.Advance(denied.RetryAfter - time.Millisecond)
	if _, err := l.Acquire(t.Context(), ask); !errors.Is(err, limiter.ErrLimited) {
		t.Errorf("a millisecond early: %v", err)
	}
	table.Advance(time.Millisecond)
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Errorf("in time: %v", err)
	}
}

// In a bubble, sleeping moves the clock, without waiting.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitertest.NewLive(t).Limiter(nil)
		begin := time.Now()
		for range 10 {
			for {
				_, err := l.Acquire(t.Context(), ask)
				if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
					time.Sleep(denied.RetryAfter)
				} else if err != nil {
					t.Fatal(err)
				} else {
					break
				}
			}
		}
		if took := time.Since(begin); took != 4*time.Minute {
			t.Errorf("10 of a bucket of 2 with 2 per minute took %v", took)
		}
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		l := table.Limiter(nil)
		if _, err := l.Acquire(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		table.Fail(limiter.ErrUnavailable)
		if _, err := l.Acquire(t.Context(), ask); !errors.Is(err, limiter.ErrUnavailable) {
			t.Errorf("unavailable: %v", err)
		}
		open := ask
		open.OnUnavailable = limiter.PolicyAllow
		if lease, err := l.Acquire(t.Context(), open); err != nil || lease.Charged() {
			t.Errorf("allowed: %v, %v", lease, err)
		}
		table.Fail(limiter.ErrUnknown)
		if _, err := l.Acquire(t.Context(), ask); !errors.Is(err, limiter.ErrUnknown) {
			t.Errorf("unknown: %v", err)
		}
		table.Fail(nil)
		time.Sleep(time.Second) // the limiter has begun to spare a table that does not answer
		if _, err := l.Acquire(t.Context(), ask); !errors.Is(err, limiter.ErrLimited) {
			t.Errorf("the lost answer took the second token: %v", err)
		}
	})
}

// Stored limits are those of the same table.
func TestStoredLimits(t *testing.T) {
	table := limitertest.New(t)
	ns := table.Admin("")
	if err := ns.SetLimits(t.Context(), admin.Scope{Resource: "api"}, limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	l := table.Limiter(&limiter.Options{OnUnavailable: limiter.PolicyAllow})
	stored := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1}}
	if _, err := l.Acquire(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	buckets, err := ns.Peek(t.Context(), "acme", "api")
	if err != nil || buckets[0].Levels[0].Remaining != 0 {
		t.Errorf("%+v, %v", buckets, err)
	}
}

func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(){
		"back":      func() { limitertest.New(t).Advance(-1) },
		"live":      func() { limitertest.NewLive(t).Advance(1) },
		"any error": func() { limitertest.New(t).Fail(errors.New("x")) },
		"any call":  func() { limitertest.New(t).Trouble(limitertest.Trouble{Operations: []string{"Scan"}}) },
		"times":     func() { limitertest.New(t).Trouble(limitertest.Trouble{Times: -1}) },
		"delay":     func() { limitertest.New(t).Trouble(limitertest.Trouble{Delay: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Whoever waits in a bubble gets the tokens after the time that it takes, at once.
func TestWaitingInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitertest.NewLive(t).Limiter(nil)
		begin := time.Now()
		for range 10 {
			if _, err := l.Wait(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 4*time.Minute {
			t.Errorf("10 of a bucket of 2 with 2 per minute took %v", took)
		}
	})
}

// Leases keep their slots in a bubble. Advance moves the clock past their renewal, so they lose
// them; what they had taken is free, and is not given back once more.
func TestSlotsAndTheClock(t *testing.T) {
	jobs := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"jobs": 1},
		Limits: []limiter.Limit{limiter.InFlight("jobs", 1, 30*time.Second)}}
	lost := func(lease *limiter.Lease) bool {
		select {
		case <-lease.Lost():
			return true
		default:
			return false
		}
	}
	table := limitertest.New(t)
	l := table.Limiter(nil)
	old, err := l.Acquire(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	table.Advance(time.Minute + time.Second)
	next, err := l.Acquire(t.Context(), jobs)
	if err != nil || !lost(old) || lost(next) {
		t.Fatalf("%v; lost: %v, %v", err, lost(old), err == nil && lost(next))
	}
	if err := old.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := l.Acquire(t.Context(), jobs); !errors.Is(err, limiter.ErrLimited) {
		t.Errorf("the slot of another lease was given back: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := limitertest.NewLive(t).Limiter(nil)
		lease, err := l.Acquire(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := l.Acquire(t.Context(), jobs); !errors.Is(err, limiter.ErrLimited) || lost(lease) {
			t.Errorf("in a bubble: %v, lost: %v", err, lost(lease))
		}
		if err := lease.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
