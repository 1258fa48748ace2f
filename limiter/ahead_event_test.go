package limiter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// A renewal that has no answer is told of, and what it has cost.
func TestEventsReportFailedRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t), &told{}
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: s.observe})
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			return false, &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.New("planned")}
		})
		before := s.writes
		for len(s.failed) == 0 { // of what is held, until it is renewed
			w.busy(l, req, 1)
		}
		if s.writes != before+1 || !errors.Is(s.failed[0], ErrUnknown) {
			t.Errorf("told of %d writes, and of %v", s.writes-before, s.failed)
		}
	})
}

// Renewals that have no answer open the breaker like any other call, and one that holds is no reason to.
func TestRenewalsThatFailOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var renewals atomic.Int64
		l := w.process(Options{Ahead: 500 * time.Millisecond, Observe: only(EventAhead, func(Event) { renewals.Add(1) })})
		req := asks(Costs{"rps": 1}, rps1000)
		if w.busy(l, req, 200); l.desks.Breaker.Open() || l.desks.Breaker.Silent > 0 || renewals.Load() == 0 {
			t.Fatalf("open after %d renewals that hold", renewals.Load())
		}
		w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unknown) })
		renewals.Store(0)
		for heldOf(l, acme, "rps") > 0 && !l.desks.Breaker.Open() { // nobody else asks the table
			must(t, l, req)
		}
		if !l.desks.Breaker.Open() || renewals.Load() != desk.BreaksAfter {
			t.Errorf("open: %v after %d renewals, with %d held", l.desks.Breaker.Open(), renewals.Load(),
				heldOf(l, acme, "rps"))
		}
	})
}

// A renewal that holds is an answer: failures with such between them are not in a row, though nobody but the
// renewals asks the table.
func TestRenewalsThatHoldAreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{Ahead: 500 * time.Millisecond})
		req := asks(Costs{"rps": 1}, rps1000)
		w.busy(l, req, 200)
		renewals, failed := 0, 0
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			if renewals++; renewals%2 == 0 {
				return true, nil
			}
			failed++
			return false, memdynamo.Fail(store.Unavailable)
		})
		for failed < 2*desk.BreaksAfter && !l.desks.Breaker.Open() {
			w.busy(l, req, 1)
		}
		if l.desks.Breaker.Open() || l.desks.Breaker.Silent > 1 {
			t.Errorf("open: %v after %d failures of %d renewals", l.desks.Breaker.Open(), failed, renewals)
		}
	})
}

// A renewal that waits in vain for as long as a call may is silence too, though its own time is over then.
func TestRenewalsThatTimeOutAreSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.process(Options{Ahead: time.Minute})
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
