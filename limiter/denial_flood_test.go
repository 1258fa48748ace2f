package limiter

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
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

// A saturated key costs a write per token that is there, and looks; callers who are
// denied pay nothing, however many they are.
func TestFloodOnASaturatedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := virtual(t)
		limit := PerSecond("rps", 10)
		w.exhausted(limit, 1)
		l := w.started(Options{})
		req := asks(Costs{"rps": 1}, limit)
		l.Acquire(t.Context(), req)
		w.db.ResetStats()
		const seconds = 10
		granted := flood(t, l, req, 300, seconds*time.Second, 20*time.Millisecond, func(err error) bool {
			if err != nil && !errors.Is(err, ErrLimited) {
				t.Error(err)
			}
			return err == nil
		})
		calls := w.db.Stats().Calls()
		t.Logf("%d granted in %d s, %d calls", granted, seconds, calls)
		if most := granted + 2*seconds; calls > most {
			t.Errorf("%d calls for %d grants in %d s", calls, granted, seconds)
		}
		if least := seconds * 10 * 99 / 100; granted < least {
			t.Errorf("%d granted in %d s, want at least %d", granted, seconds, least)
		}
	})
}
