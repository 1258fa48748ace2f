package limiter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// told is what events have told.
type told struct {
	mu           sync.Mutex
	writes       int
	asked        int64 // tokens that were granted with a write
	taken, ended int64
	failed       []error // renewals that failed
}

func (s *told) observe(_ context.Context, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes += e.Writes
	s.taken += e.Taken["rps"]
	s.ended += e.Ended["rps"]
	switch {
	case e.Kind == EventAhead && e.Err != nil:
		s.failed = append(s.failed, e.Err)
	case e.Kind == EventAcquire && e.Err == nil && !e.Ahead:
		s.asked += e.Costs["rps"]
	}
}

func (s *told) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Events tell of every write, also of those that no caller waits for, of every token that is
// taken ahead, and of every one that ended unspent.
func TestEventsReportPrefetchedAndExpiredTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t), &told{}
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: s.observe})
		req := asks(Costs{"rps": 1}, rps1000)
		w.db.ResetStats()
		for range 3 {
			w.busy(l, req, 300)
			w.pass(2 * time.Second) // what is left has ended
		}
		w.busy(l, req, 1)
		used, ended := w.countedOf(l, acme)
		if s.asked+s.taken != used || s.ended != ended || ended == 0 {
			t.Errorf("told of %d tokens taken with requests, %d ahead and %d that ended; %d are counted, of which %d ended",
				s.asked, s.taken, s.ended, used, ended)
		}
		if n := w.db.Stats().WriteUnits; s.writes != n || len(s.failed) > 0 {
			t.Errorf("told of %d writes, %d were sent; %d failed", s.writes, n, len(s.failed))
		}
	})
}

// Renewals are calls like any other, also where nobody else asks the table. Those without an answer in a row are
// reported and open the breaker; one that holds ends the row.
func TestRenewalsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		fails  func(renewal int) bool
		opens  bool
		silent int
	}{
		"none":   {func(int) bool { return false }, false, 0},
		"all":    {func(int) bool { return true }, true, desk.BreaksAfter},
		"others": {func(n int) bool { return n%2 == 1 }, false, 1},
	} {
		s := &told{}
		inBubble(t, Options{Ahead: 500 * time.Millisecond, Observe: s.observe}, func(t *testing.T, w *world, l *Limiter) {
			req := asks(Costs{"rps": 1}, rps1000)
			w.busy(l, req, 200)
			renewals, failed, before := 0, 0, s.writes
			w.db.SetHook(func(memdynamo.Op) (bool, error) {
				if renewals++; c.fails(renewals) {
					failed++
					return false, memdynamo.Fail(store.Unknown)
				}
				return true, nil
			})
			for renewals < 4*desk.BreaksAfter && !l.desks.Breaker.Open() { // all are granted from what is held
				w.busy(l, req, 1)
			}
			if open := l.desks.Breaker.Open(); open != c.opens || l.desks.Breaker.Silent > c.silent ||
				c.opens && renewals != desk.BreaksAfter {
				t.Errorf("%s: open %v after %d failures of %d renewals", name, open, failed, renewals)
			}
			if s.writes != before+renewals || len(s.failed) != failed || failed > 0 && !errors.Is(s.failed[0], ErrUnknown) {
				t.Errorf("%s: told of %d writes of %d, and of %v", name, s.writes-before, renewals, s.failed)
			}
		})
	}
}

// A renewal that waits in vain for as long as a call may is silence too, though its own time is over then.
func TestRenewalsThatTimeOutAreSilence(t *testing.T) {
	inBubble(t, Options{Ahead: time.Minute}, func(t *testing.T, w *world, l *Limiter) {
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		began := make(chan bool, 1)
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			began <- true
			time.Sleep(l.opts.Timeout + time.Second)
			return false, memdynamo.Fail(store.Unknown)
		})
		for len(began) == 0 { // nobody else asks the table
			must(t, l, req)
			synctest.Wait()
		}
		time.Sleep(l.opts.Timeout + time.Second)
		synctest.Wait()
		if l.desks.Breaker.Silent != 1 {
			t.Errorf("%d calls without an answer, want 1", l.desks.Breaker.Silent)
		}
	})
}
