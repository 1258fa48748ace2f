package limitertest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

var ask = limiter.Request{
	Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
	Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)},
}

func TestMisuse(t *testing.T) {
	for name, c := range map[string]struct {
		f    func()
		said string // and in which words
	}{
		"back":      {func() { limitertest.New(t).Advance(-1) }, "advance by -1ns"},
		"live":      {func() { limitertest.NewLive(t).Advance(1) }, "on a table of New"},
		"any error": {func() { limitertest.New(t).Fail(errors.New("x")) }, "fail with x"},
		"any call": {func() { limitertest.New(t).Trouble(limitertest.Trouble{Operations: []string{"Scan"}}) },
			`trouble with "Scan"`},
		"times": {func() { limitertest.New(t).Trouble(limitertest.Trouble{Times: -1}) }, "-1 times"},
		"delay": {func() { limitertest.New(t).Trouble(limitertest.Trouble{Delay: -1}) }, "delay of -1ns"},
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, c.said) {
					t.Errorf("%s: panic %q, want %q in it", name, said, c.said)
				}
			}()
			c.f()
		}()
	}
	table := limitertest.New(t)
	begin := table.Now()
	table.Advance(0)
	check.Equal(t, table.Now(), begin, "no time moves the clock")
}

// failing is a test that fails.
type failing struct {
	testing.TB
	helped bool
	with   string
}

func (f *failing) Helper() { f.helped = true }

func (f *failing) Fatal(args ...any) {
	f.with = fmt.Sprint(args...)
	panic("the test is over")
}

// A limiter or a namespace that cannot be opened fails the test, at the line that asked for it.
func TestOpeningFailsTheTest(t *testing.T) {
	writes := []string{"UpdateItem", "PutItem", "TransactWriteItems"}
	for _, c := range []struct {
		name    string
		trouble limitertest.Trouble
		open    func(*limitertest.Table)
	}{
		{"limiter", limitertest.Trouble{Err: limitertest.ErrDenied},
			func(table *limitertest.Table) { table.Limiter(nil) }},
		{"admin, reads", limitertest.Trouble{Err: limitertest.ErrDenied},
			func(table *limitertest.Table) { table.Admin("") }},
		{"admin, writes", limitertest.Trouble{Operations: writes, Err: limitertest.ErrDenied},
			func(table *limitertest.Table) { table.Admin("") }},
	} {
		test := &failing{TB: t}
		table := limitertest.New(test)
		table.Trouble(c.trouble)
		func() {
			defer func() { _ = recover() }()
			c.open(table)
		}()
		if !strings.Contains(test.with, "AccessDenied") || !test.helped {
			t.Errorf("%s: failed with %q; a helper: %v", c.name, test.with, test.helped)
		}
	}
}

// Without a timeout of their own, limiters and namespaces wait for a day.
func TestSlowMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		table.Trouble(limitertest.Trouble{Delay: 5 * time.Hour})
		ns, l := table.Admin(""), table.Limiter(nil)
		check.NoError(t, ns.SetLimits(t.Context(), admin.Scope{Resource: "api"}, limiter.PerMinute("rpm", 1)))
		check.NoError(t, check.Err(l.Acquire(t.Context(), ask)))
		table.Trouble(limitertest.Trouble{Hang: true})
		if took, err := asked(t, l); !errors.Is(err, limiter.ErrUnknown) || took != 24*time.Hour {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Namespaces have their own limits.
func TestNamespaces(t *testing.T) {
	table := limitertest.New(t)
	api := admin.Scope{Resource: "api"}
	check.Must(t, table.Admin("other").SetLimits(t.Context(), api, limiter.PerMinute("rpm", 1)))
	for name, want := range map[string]error{"other": nil, "": admin.ErrNotFound, "default": admin.ErrNotFound} {
		check.Is(t, check.Err(table.Admin(name).Config(t.Context(), api)), want, "limits in namespace %q", name)
	}
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
	check.Must(t, err)
	table.Advance(time.Minute + time.Second)
	next, err := l.Acquire(t.Context(), jobs)
	if err != nil || !lost(old) || lost(next) {
		t.Fatalf("%v; lost: %v, %v", err, lost(old), err == nil && lost(next))
	}
	check.NoError(t, old.Commit(t.Context()))
	check.Is(t, check.Err(l.Acquire(t.Context(), jobs)), limiter.ErrLimited,
		"the slot of another lease was given back")
	synctest.Test(t, func(t *testing.T) {
		l := limitertest.NewLive(t).Limiter(nil)
		lease, err := l.Acquire(t.Context(), jobs)
		check.Must(t, err)
		time.Sleep(10 * time.Minute)
		if _, err := l.Acquire(t.Context(), jobs); !errors.Is(err, limiter.ErrLimited) || lost(lease) {
			t.Errorf("in a bubble: %v, lost: %v", err, lost(lease))
		}
		check.NoError(t, lease.Commit(t.Context()))
	})
}
