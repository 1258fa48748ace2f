package decide

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// reported returns the denials counted in the item.
func (s *story) reported() int64 {
	s.Helper()
	b, err := table.DecodeShard(s.it)
	if err != nil {
		s.Fatal(err)
	}
	return b.Denied / 1000
}

// Denials go with the next write that holds. A refused write leaves them for the next one. A write
// with an unknown outcome drops them.
func TestDenialsGoWithTheNextWrite(t *testing.T) {
	s := newStory(t, 10)
	s.b.Denied(0)
	s.b.Denied(0)
	_, c := s.sent(8)
	s.b.Denied(0) // while the write is under way
	s.others(4)   // so it is refused
	s.write(c, false)
	check.Equal(t, s.reported(), 0, "reported by a refused write")
	s.advance(c, 0) // denied
	_, c = s.sent(1)
	s.write(c, true)
	check.Equal(t, s.reported(), 3, "reported 3")
	s.b.Denied(0)
	_, c = s.sent(1)
	s.b.Returned(c, true)
	s.ms = 1000
	var f Effects
	s.b.Done(c, Outcome{Err: errors.New("no answer")}, s.now, &f)
	_, c = s.sent(1)
	s.write(c, true)
	check.Equal(t, s.reported(), 3, "reported 3, and one that may have been")
}

// A reporting look returns an image like any other look: the process yields to limits that others
// have set. It is not sent for slots, nor for an unknown shard.
func TestReportingLookBringsAnImage(t *testing.T) {
	for _, waited := range []int64{reportAfter - 1, reportAfter} {
		s := newStory(t, 1)
		s.b = seenAs(perHour20, 1)
		s.it = s.b.Seen(0).Image.Item()
		ask := func() *Call {
			w := &Waiter{Want: asks(1, perHour20)}
			var e Effects
			s.b.Ask(w, true, s.now, &e)
			s.advance(e.Calls[0], 1)
			return e.Calls[0]
		}
		s.write(ask(), true)
		theirs := perHour20
		theirs.Capacity, theirs.Amount = 2*theirs.Capacity, 2*theirs.Amount
		image, _ := table.DecodeShard(s.it)
		charge := table.Charge{Image: image, Costs: asks(1, theirs).Costs, Now: noon + 30_000, Force: true}.Plan()
		s.it, _, _ = charge.Update.Apply(s.it)
		s.ms = 70_000
		s.b.Denied(s.ms - waited)
		s.write(ask(), waited >= reportAfter)
		k := s.b.lock()
		if len(k.yields) != 1 {
			t.Errorf("after %d ms it yields to %d", waited, len(k.yields))
		}
		s.b.mu.Unlock()
	}
	b := seenAs(perHour20, 0)
	b.Denied(-reportAfter)
	jobs := bucket.Limit{Name: "jobs", Capacity: 1000, Period: 60_000, InFlight: true}
	for _, c := range []struct {
		limit bucket.Limit
		shard int
	}{{jobs, 0}, {perHour20, 1}} {
		if p := planned(t, b, Choice{Do: Look, Shard: c.shard}, asks(1, c.limit), noon); !p.Takes {
			t.Errorf("%+v: a look that only reports: %v", c, p.Write)
		}
	}
}

// If nothing is granted, a look reports the denials when the first is ten seconds old, and holds
// whatever the level is.
func TestLookReportsDenials(t *testing.T) {
	for waited, reports := range map[int64]bool{reportAfter - 1: false, reportAfter: true} {
		s := newStory(t, 0)
		s.b = seenAs(perHour20, 0)
		s.it = s.b.Seen(0).Image.Item()
		s.ms = 60_000 // by now the image may not deny any more: 0.3 tokens have refilled
		s.b.Denied(s.ms - waited)
		w := &Waiter{Want: asks(1, perHour20)}
		var e Effects
		s.b.Ask(w, true, s.now, &e)
		c := e.Calls[0]
		s.advance(c, 1)
		e = s.write(c, reports)
		s.answers(e, map[*Waiter]Result{w: Denied})
		got := s.reported()
		check.Equal(t, got == 1, reports, "after %d ms %d reported", waited, got)
		s.atRest()
	}
}
