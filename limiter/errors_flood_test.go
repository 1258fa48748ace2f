package limiter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// virtual returns a world whose clock is that of the test's bubble, in which every
// call takes four milliseconds.
func virtual(t *testing.T) *world {
	w := &world{t: t, db: memdynamo.New(func() int64 { return time.Now().UnixMilli() })}
	w.db.SetHook(func(memdynamo.Op) (bool, error) { time.Sleep(4 * time.Millisecond); return true, nil })
	return w
}

// started returns a process of a virtual world.
func (w *world) started(opts Options) *Limiter {
	w.t.Helper()
	opts.Register = true
	l, err := open(w.t.Context(), w.db, &opts)
	fine(w.t, err)
	return l
}

// exhausted returns a bucket of a limit, of so many shards, that holds nothing.
func (w *world) exhausted(limit Limit, shards int) {
	w.t.Helper()
	l := w.started(Options{})
	must(w.t, l, asks(Costs{limit.Name: 1}, limit)).Rollback(w.t.Context())
	w.now.Store(time.Now().UnixMilli())
	w.split(l, shards)
	for known := 0; known < shards; {
		drain(w.t, l, asks(Costs{limit.Name: 1}, limit))
		time.Sleep(2 * time.Second)
		known = 0
		for _, s := range seen(l) {
			if !s.Absent {
				known++
			}
		}
	}
}

// A flood of callers on an exhausted key pays for a look per DenyFor, however many
// callers and shards there are, and for no look that another caller has just made.
func TestFloodOnAnExhaustedKey(t *testing.T) {
	for _, shards := range []int{1, 32} {
		t.Run(fmt.Sprint(shards, " shards"), bubble(func(t *testing.T) {
			w := virtual(t)
			limit := PerDay("rpd", 320)
			w.exhausted(limit, shards)
			l := w.started(Options{})
			req := asks(Costs{"rpd": 1}, limit)
			for range shards { // learns the shards
				deniedBy(t, l, req)
				time.Sleep(2 * time.Second)
			}
			w.db.ResetStats()
			const seconds = 4
			denied := flood(t, l, req, 1000, seconds*time.Second, 50*time.Millisecond, func(err error) bool {
				d, ok := errors.AsType[*LimitError](err)
				if !ok || d.RetryAfter <= 0 || d.RetryAfter > 24*time.Hour {
					t.Errorf("got %v", err)
				}
				return ok
			})
			st := w.db.Stats()
			t.Logf("%d shards: %d denials in %d s cost %d calls", shards, denied, seconds, st.Calls())
			if st.Calls() > 2*seconds {
				t.Errorf("%d calls in %d s, want at most 2 a second", st.Calls(), seconds)
			}
			atRest(t, l)
		}))
	}
}

// flood lets so many callers ask again and again, beginning one after the other and
// pausing between their requests, and returns how many answers count.
func flood(t *testing.T, l *Limiter, req Request, callers int, lasting, pause time.Duration,
	counts func(error) bool) int {
	begin := time.Now()
	var answers atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 37 * time.Microsecond)
			for time.Since(begin) < lasting && !t.Failed() {
				if _, err := l.Acquire(t.Context(), req); counts(err) {
					answers.Add(1)
				}
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
	return int(answers.Load())
}

// counted is how many denials the shards of a bucket count.
func (w *world) counted(l *Limiter, entity string) (n int64) {
	for _, b := range w.shards(l, entity, gpt) {
		n += b.Denied / 1000
	}
	return n
}

// Denials are counted without a write more. While something is granted they go with the charges. Once a quota is
// spent nothing is, and the look that goes out each second brings them, at most ten seconds late.
func TestDenialsCostNoWrite(t *testing.T) {
	for limit, most := range map[Limit]int{
		PerSecond("rps", 2):                  2 * 62,
		Quota("spend", 5, Monthly(1, "UTC")): 5 + 62, // each is granted, and a look a second
	} {
		synctest.Test(t, func(t *testing.T) {
			w := virtual(t)
			l := w.started(Options{})
			denied, before := int64(0), w.db.Stats().WriteUnits
			for range 600 { // a minute, ten requests a second
				_, err := l.Acquire(t.Context(), asks(Costs{limit.Name: 1}, limit))
				if errors.Is(err, ErrLimited) {
					denied++
				} else {
					fine(t, err)
				}
				l.desks.Wait()
				time.Sleep(96 * time.Millisecond)
				if late := denied - w.counted(l, acme); late < 0 || late > 120 {
					t.Fatalf("%s: of %d denials %d are not counted", limit.Name, denied, late)
				}
			}
			if n := w.db.Stats().WriteUnits - before; n > most {
				t.Errorf("%s: %d writes, want at most %d", limit.Name, n, most)
			}
		})
	}
}

// Whatever is refused, lost or split, a denial is counted once, or not at all if an answer was lost or its process
// has ended.
func TestDenialsAreCountedOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w, r := virtual(t), rand.New(rand.NewPCG(seed, 51))
			procs := []*Limiter{w.started(Options{}), w.started(Options{Ahead: time.Second}), w.started(Options{})}
			limits := []Limit{PerSecond("rps", 5), PerDay("rpd", 100000)}
			denied := int64(0)
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				switch n := r.IntN(40); {
				case len(op.Writes) != 1 || seed%2 == 0:
				case n == 0:
					return false, memdynamo.Fail(store.Unavailable)
				case n == 1:
					return r.IntN(2) == 0, memdynamo.Fail(store.Unknown)
				}
				return true, nil
			})
			for i := range 400 {
				if i == 200 {
					w.split(procs[0], 2)
				}
				l := procs[r.IntN(len(procs))]
				_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1 + r.Int64N(3)}, limits...))
				l.desks.Wait()
				if errors.Is(err, ErrLimited) {
					denied++
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			}
			w.db.SetHook(nil)
			for _, l := range procs {
				time.Sleep(5 * time.Second)
				for range 3 { // each is granted once more, on each shard
					_, _ = l.Acquire(t.Context(), asks(Costs{"rps": 1}, limits...))
					l.desks.Wait()
				}
			}
			got := w.counted(procs[0], acme)
			if got > denied || seed%2 == 0 && got < denied {
				t.Errorf("seed %d: %d counted of %d", seed, got, denied)
			}
			if denied == 0 || got == 0 {
				t.Errorf("seed %d: %d denied, %d counted: it says nothing", seed, denied, got)
			}
		})
	}
}
