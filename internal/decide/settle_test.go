package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A difference that rides while its time is over, and whose ride is refused then, is minded on.
func TestARefusedRideIsMindedOn(t *testing.T) {
	s := newStory(t, 6)
	d := &Difference{Costs: table.Costs([]bucket.Limit{perSecond}, -3000), At: 0}
	if !s.b.HandOver(0, d) {
		t.Fatal("not minded")
	}
	_, c := s.sent(8)
	s.others(6)
	s.ms = 10
	s.b.Due(0, s.now(), 10)
	s.write(c, false)
	s.advance(c, 0) // denied
	k := s.b.lock()
	due, minded := len(k.at(0).due), k.at(0).minded
	s.b.mu.Unlock()
	if due > 0 && !minded {
		t.Errorf("%d due, and nobody minds", due)
	}
}

// What a call that hangs gives back is not there for the next one.
func TestRidingRefundIsNotThereForOthers(t *testing.T) {
	s := newStory(t, 2)
	s.b.HandOver(0, &Difference{Costs: table.Costs([]bucket.Limit{perSecond}, -8000)})
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

// A group is cut where the bucket can hold no more, whatever is given back.
func TestGroupIsCutDespiteRefunds(t *testing.T) {
	s := newStory(t, 9)
	first, c := s.sent(1) // 8 are left
	for range 4 {
		s.ask(2)
	}
	s.b.HandOver(0, &Difference{Costs: table.Costs([]bucket.Limit{perSecond}, -5000)})
	for range 2 {
		s.ask(2) // 12 of 13, where 10 are the most
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

// Shard 0 that was made anew by others, with limits of theirs, is no shard that was split off.
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
