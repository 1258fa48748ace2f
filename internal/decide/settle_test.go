package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// If a difference's time is over while it rides, and its ride is refused, it goes alone.
func TestARefusedRideGoesAlone(t *testing.T) {
	s := newStory(t, 6)
	d := &Difference{Costs: table.Costs([]bucket.Limit{perSecond}, -3000), At: s.now().At.Add(10 * msec)}
	if due := s.b.HandOver(0, d, s.now()); due.All != nil || due.Again != 10*msec {
		t.Fatalf("%+v, want to be asked again in 10 ms", due)
	}
	_, c := s.sent(8)
	s.others(6)
	s.ms = 10
	if due := s.b.Due(0, false, s.now()); due.All != nil || due.Again != 0 {
		t.Errorf("%+v is due of what rides", due)
	}
	s.write(c, false)
	if e := s.advance(c, 0); len(e.Dues) != 1 || !slices.Equal(e.Dues[0].All, []*Difference{d}) {
		t.Errorf("%+v is due, want the refused ride", e.Dues)
	}
}

// A difference that becomes due while a write is under way goes alone when the write has landed, or
// is late.
func TestDuesFollowAWrite(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newStory(t, 6)
		_, c := s.sent(1)
		d := &Difference{Costs: table.Costs([]bucket.Limit{perSecond}, -1000), At: s.now().At}
		due := s.b.HandOver(0, d, s.now())
		if due.All != nil || due.Again != LeastPatience {
			t.Errorf("%+v is due while a write is on its way", due)
		}
		if s.ms = 10; late {
			due = s.b.Due(0, false, s.now())
		} else if e := s.write(c, true); len(e.Dues) == 1 {
			due = e.Dues[0]
		}
		check.Slices(t, due.All, []*Difference{d}, "late %v: %+v is due", late, due)
	}
}

// A difference that can ride on no charge waits for the write under way when it became due, and for
// no later one: a busy shard always has another.
func TestDuesThatCannotRide(t *testing.T) {
	s := newStory(t, 60)
	_, c := s.sent(1)
	other := perSecond
	other.Name = "of another time"
	d := &Difference{Costs: table.Costs([]bucket.Limit{other}, -1000), At: s.now().At}
	if due := s.b.HandOver(0, d, s.now()); due.All != nil || due.Again != LeastPatience {
		t.Fatalf("%+v is due while a write is on its way", due)
	}
	for s.ms = 5; s.ms < 40; s.ms += 5 {
		if due := s.b.Due(0, false, s.now()); len(due.All) > 0 {
			check.Equal(t, s.ms, 10, "due after ms")
			return
		}
		s.ask(1)
		e := s.write(c, true)
		if len(e.Calls) != 1 || len(e.Dues) > 0 && len(e.Dues[0].All) > 0 {
			t.Fatalf("%d calls, %+v", len(e.Calls), e.Dues)
		}
		c = e.Calls[0]
		s.advance(c, 1)
	}
	t.Error("it is never due")
}

// Handed-over differences are requested once, when the first of them is due.
func TestDuesAreAskedForOnce(t *testing.T) {
	s := newStory(t, 6)
	in := func(d time.Duration) Dues {
		costs := table.Costs([]bucket.Limit{perSecond}, -1000)
		return s.b.HandOver(0, &Difference{Costs: costs, At: s.now().At.Add(d)}, s.now())
	}
	for i, again := range []time.Duration{20 * msec, 0, 10 * msec} {
		if due := in([]time.Duration{20 * msec, 30 * msec, 10 * msec}[i]); due.All != nil || due.Again != again {
			t.Errorf("%d: %+v, want to be asked again in %s", i, due, again)
		}
	}
	s.ms = 10
	if due := s.b.Due(0, false, s.now()); len(due.All) != 1 || due.Again != LeastPatience {
		t.Errorf("%+v: one is due, and the next one once its write is late", due)
	}
	if due := in(0); due.All != nil || due.Again != 0 {
		t.Errorf("%+v, though a write is on its way", due)
	}
	if due := s.b.Due(0, true, s.now()); len(due.All) != 1 {
		t.Errorf("%+v follows, want one", due)
	}
}

// handOver gives tokens back with the next charge.
func (s *story) handOver(tokens int64) {
	costs := table.Costs([]bucket.Limit{perSecond}, -tokens*bucket.Milli)
	s.b.HandOver(0, &Difference{Costs: costs, At: s.now().At.Add(time.Hour)}, s.now())
}

// Tokens given back with a hanging call are not available to the next one.
func TestRidingRefundIsNotThereForOthers(t *testing.T) {
	s := newStory(t, 2)
	s.handOver(8)
	_, c := s.sent(1) // hangs, with the 8
	s.ask(5)
	s.ms = 20
	var e Effects
	s.b.Overdue(c, s.now().At, &e)
	n := 0
	for len(e.Calls) > 0 && n < 100 {
		n++
		next := e.Calls[0]
		e = s.advance(next, 1)
		e = s.write(next, true)
	}
	if n > 3 {
		t.Errorf("%d writes that take nothing", n)
	}
}

// A group is cut at the capacity of the bucket, whatever is given back.
func TestGroupIsCutDespiteRefunds(t *testing.T) {
	s := newStory(t, 9)
	first, c := s.sent(1) // 8 are left
	for range 4 {
		s.ask(2)
	}
	s.handOver(5)
	for range 2 {
		s.ask(2) // 12 of 13, but 10 is the maximum
	}
	e := s.write(c, true)
	s.answers(e, map[*Waiter]Result{first: Granted})
	if len(e.Calls) == 0 {
		t.Fatal("no call")
	}
	var f Effects
	s.b.Advance(e.Calls[0], s.now, &f)
	if !e.Calls[0].Takes {
		t.Errorf("%d ride on a write that takes nothing", len(e.Calls[0].riders))
	}
}

// A shard 0 that others created again, with their limits, was not split off.
func TestANewBucketIsNotSplitOff(t *testing.T) {
	old, b2, c3 := perSecond, perSecond, perSecond
	b2.Amount, c3.Amount = 2*old.Amount, 3*old.Amount
	at := func(l bucket.Limit, began int64) table.Shard {
		_, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "acme", Resource: "gpt-4",
			Costs: table.Costs([]bucket.Limit{l}, 0), Now: began, Draw: 1})
		return b
	}
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	w := asks(1, old)
	first := at(old, noon)
	b.See(first, noon, Unsent)
	b.Took(first, Planned{Takes: true, since: Unsent}, w, nil, noon)
	b.See(at(b2, noon+5000), noon+5000, Unsent)
	b.Decide(w, &Attempt{}, clock(noon+5001))
	b.Missing(noon+6000, 0)
	b.See(at(c3, noon+7000), noon+7000, Unsent)
	d := b.Decide(w, &Attempt{}, clock(noon+7001))
	if d.Want.Costs[0].Limit != c3 {
		t.Error("it brings back limits that others have replaced")
	}
}
