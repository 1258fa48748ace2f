package decide

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// told is how many denials the item counts.
func (s *story) told() int64 {
	s.Helper()
	b, err := table.DecodeShard(s.it)
	if err != nil {
		s.Fatal(err)
	}
	return b.Denied / 1000
}

// Denials go with the next write that holds. A write that is refused leaves them for the next one. One that
// nobody knows of takes them with it.
func TestDenialsGoWithTheNextWrite(t *testing.T) {
	s := newStory(t, 10)
	s.b.Denied(0)
	s.b.Denied(0)
	_, c := s.sent(8)
	s.b.Denied(0) // while the write is on its way
	s.others(4)   // so it is refused
	s.write(c, false)
	if s.told() != 0 {
		t.Errorf("%d told by a write that was refused", s.told())
	}
	s.advance(c, 0) // denied
	_, c = s.sent(1)
	s.write(c, true)
	if s.told() != 3 {
		t.Errorf("%d told of 3", s.told())
	}
	s.b.Denied(0)
	_, c = s.sent(1)
	s.b.Returned(c, true)
	s.ms = 1000
	var f Effects
	s.b.Done(c, Outcome{Err: errors.New("no answer")}, s.now, &f)
	_, c = s.sent(1)
	s.write(c, true)
	if s.told() != 3 {
		t.Errorf("%d told of 3, and one that may have been told", s.told())
	}
}

// Where nothing is granted, a look tells the denials once the first has waited for ten seconds, and holds
// whatever there is.
func TestALookTellsDenials(t *testing.T) {
	for waited, tells := range map[int64]bool{tellAfter - 1: false, tellAfter: true} {
		s := newStory(t, 0)
		s.b = seenAs(perHour20, 0)
		s.it = s.b.Seen(0).Image.Item()
		s.ms = 60_000 // by now the image may not deny any more: 0.3 tokens have come
		s.b.Denied(s.ms - waited)
		w := &Waiter{Want: asks(1, perHour20)}
		var e Effects
		s.b.Ask(w, true, s.now, &e)
		c := e.Calls[0]
		s.advance(c, 1)
		e = s.write(c, tells)
		s.answers(e, map[*Waiter]Result{w: Denied})
		if got := s.told(); got == 1 != tells {
			t.Errorf("after %d ms %d told", waited, got)
		}
		s.atRest()
	}
}
