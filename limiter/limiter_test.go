package limiter

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// world is a table in memory with a clock that only the test moves.
type world struct {
	t   testing.TB
	db  *memdynamo.DB
	now atomic.Int64

	mended item.Item // the item that spoil has damaged, as it was
}

func newWorld(t testing.TB) *world {
	w := &world{t: t}
	chance.begin(t.Name())
	w.now.Store(1_700_000_000_000)
	w.db = memdynamo.New(w.now.Load)
	return w
}

func (w *world) advance(d time.Duration) { w.now.Add(d.Milliseconds()) }

// ages is a bound that no call comes near, however slow the machine is: what is
// bounded by real time in a test gets it.
const ages = 24 * time.Hour

const ms = time.Millisecond

// process returns a limiter with caches of its own, on a namespace that it
// registers if need be. Only a test that says so has a bound that matters; it runs in
// a bubble of testing/synctest then, because bounds are about real time.
func (w *world) process(opts Options) *Limiter {
	w.t.Helper()
	opts.Register = true
	calm := opts.Timeout == 0 // nothing hangs: a read takes as long as the machine needs for it
	if calm {
		opts.Timeout = ages
	}
	opts.Now = func() time.Time { return time.UnixMilli(w.now.Load()) }
	l, err := open(context.Background(), w.db, &opts)
	check.Must(w.t, err)
	if calm {
		l.configs.patience = ages
	}
	return l
}

// newProcess returns a world and its first process.
func newProcess(t testing.TB, opts Options) (*world, *Limiter) {
	t.Helper()
	w := newWorld(t)
	return w, w.process(opts)
}

// inBubble runs f in a bubble of testing/synctest, with a world and its first process.
func inBubble(t *testing.T, opts Options, f func(t *testing.T, w *world, l *Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, l := newProcess(t, opts)
		f(t, w, l)
	})
}

// bubble returns f, run in a bubble of testing/synctest.
func bubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// virtual returns a world within a bubble: its clock is that of the bubble, and a call takes a trip.
func virtual(t testing.TB, trip time.Duration) *world {
	w := &world{t: t, db: memdynamo.New(func() int64 { return time.Now().UnixMilli() })}
	w.db.SetHook(takes(trip))
	return w
}

// takes returns a hook with which every call takes so long.
func takes(trip time.Duration) memdynamo.Hook {
	return func(memdynamo.Op) (bool, error) { time.Sleep(trip); return true, nil }
}

// started returns a process of a virtual world.
func (w *world) started(opts Options) *Limiter {
	w.t.Helper()
	opts.Register = true
	l, err := open(w.t.Context(), w.db, &opts)
	check.Must(w.t, err)
	return l
}

// inTime runs f in a virtual world, in which a call takes two milliseconds.
func inTime(t *testing.T, f func(t *testing.T, w *world, process func() *Limiter)) {
	synctest.Test(t, func(t *testing.T) {
		w := virtual(t, 2*ms)
		f(t, w, func() *Limiter { return w.started(Options{Timeout: 10 * time.Second}) })
	})
}

// wantGranted checks how many requests are granted at one instant.
func wantGranted(t testing.TB, l *Limiter, req Request, want int) {
	t.Helper()
	check.MustEqual(t, drain(t, l, req), want, "granted")
}

func rpm(n int64) []Limit { return []Limit{PerMinute("rpm", n)} }
