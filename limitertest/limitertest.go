// Package limitertest is for the tests of programs that use package limiter. It has a table in
// memory in place of a DynamoDB client, so that the real limiter runs in a test without a database.
// Its clock stands still until the test moves it, or it is the clock of package time, as in a
// bubble of testing/synctest. Calls fail, hang, are throttled or refused on demand.
//
//	table := limitertest.New(t)
//	l := table.Limiter(nil)
//	...
//	table.Advance(time.Minute)
//	table.Fail(limiter.ErrUnavailable)
//	table.Trouble(limitertest.Trouble{Delay: time.Second})
//
// The functions of the stack (usage, the archive) do not run.
package limitertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Table is a table in memory. It is a limiter.DynamoDB and an admin.DynamoDB: for limiter.Open and
// admin.Open, or for a client of the test's own that passes calls on to it. It supports only the
// requests of this project, and ignores the table's name in them. It is safe for concurrent use.
type Table struct {
	client
	tb testing.TB

	mu      sync.Mutex
	now     time.Time // zero: package time's
	trouble []Trouble
}

// client is embedded for its methods.
type client struct{ admin.DynamoDB }

// start is when the clock of a new table stands.
var start = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// timeout is for clients without one of their own. A table in memory answers at once, so only a
// machine that stands still could make a call too late for the defaults. A test must not fail for
// it.
const timeout = 24 * time.Hour

// New returns an empty table whose clock stands at the beginning of 2025, UTC.
func New(tb testing.TB) *Table { return newTable(tb, start) }

// NewLive returns an empty table whose clock is time.Now. In a bubble of testing/synctest that is
// the clock of the bubble, which time.Sleep moves, so that a test of minutes takes none:
//
//	synctest.Test(t, func(t *testing.T) {
//		l := limitertest.NewLive(t).Limiter(nil)
//		…
//		lease, err := l.Wait(t.Context(), request) // sleeps, and goes on at once
//	})
func NewLive(tb testing.TB) *Table { return newTable(tb, time.Time{}) }

func newTable(tb testing.TB, now time.Time) *Table {
	t := &Table{tb: tb, now: now}
	db := memdynamo.New(func() int64 { return t.Now().UnixMilli() })
	db.SetHook(t.hook)
	t.DynamoDB = db.Client()
	return t
}

// Now returns the time of the clock.
func (t *Table) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.IsZero() {
		return time.Now()
	}
	return t.now
}

// Advance moves the clock. It panics for a negative duration, and for a table with the clock of
// package time. Limiters do no work in that time, as if their process had been frozen: leases lose
// the slots of in-flight limits that are due for renewal. With a table of [NewLive] in a bubble
// they are renewed.
func (t *Table) Advance(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d < 0 || t.now.IsZero() {
		panic(fmt.Sprintf("limitertest: advance by %v: want a positive duration, on a table of New", d))
	}
	t.now = t.now.Add(d)
}

// Limiter opens a limiter on the table, with its clock, and registers the namespace. Options may be
// nil; without a Timeout, no call fails because the machine is slow. It fails the test if opening
// fails.
func (t *Table) Limiter(opts *limiter.Options) *limiter.Limiter {
	t.tb.Helper()
	o := limiter.Options{}
	if opts != nil {
		o = *opts
	}
	o.Register, o.Now = true, t.Now
	if o.Timeout == 0 {
		o.Timeout = timeout
	}
	l, err := limiter.Open(context.Background(), t, "limitertest", &o)
	if err != nil {
		t.tb.Fatal(err)
	}
	return l
}

// Admin opens a namespace for administration, with the table's clock, and registers it; "default"
// if the name is empty. It fails the test on an error.
func (t *Table) Admin(namespace string) *admin.Namespace {
	t.tb.Helper()
	if namespace == "" {
		namespace = "default"
	}
	table, err := admin.Open(context.Background(), t, "limitertest", &admin.Options{Now: t.Now, Timeout: timeout})
	if err != nil {
		t.tb.Fatal(err)
	}
	ns, err := table.Register(context.Background(), namespace)
	if err != nil {
		t.tb.Fatal(err)
	}
	return ns
}
