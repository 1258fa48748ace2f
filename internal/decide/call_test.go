package decide

import (
	"testing"
	"time"
)

// A request joins the queue behind a call if its caller waits long enough for that answer and the
// next one. A call that takes longer than most will be answered soon, but is not answered yet.
func TestRequestsJoinCallsInTime(t *testing.T) {
	now := Now{At: time.Unix(1000, 0), Trip: 10, Late: 30 * msec}
	for _, c := range []struct {
		under, left time.Duration // left 0: the caller has no deadline
		joins       bool
	}{
		{0, 40 * msec, true}, {0, 40*msec - 1, false}, {8 * msec, 32 * msec, true}, {8 * msec, 32*msec - 1, false},
		{20 * msec, 30 * msec, true}, {20 * msec, 30*msec - 1, false}, {30*msec - 1, 0, true}, {30 * msec, 0, false},
	} {
		w := &Waiter{}
		if c.left > 0 {
			w.Deadline = now.At.Add(c.left)
		}
		if got := (&Call{began: now.At.Add(-c.under)}).canJoin(w, now); got != c.joins {
			t.Errorf("%s after it was sent, with %s left: joins %v", c.under, c.left, got)
		}
	}
}

// A call ends with the last bound of its group. A queued waiter leaves by itself at that time, and
// first.
func TestACallEndsWithTheLastOfItsGroup(t *testing.T) {
	end := time.Unix(1000, 0)
	b := NewBucket(&Settings{})
	k := b.lock()
	defer b.mu.Unlock()
	var e Effects
	k.start(Choice{Do: Take}, []*Waiter{{Bound: end.Add(-msec)}, {Bound: end}, {Bound: end.Add(-1)}}, end, &e)
	k.start(Choice{Do: Take}, []*Waiter{{Bound: end.Add(-msec)}, {Bound: end, queued: true}}, end, &e)
	if a, z := e.Calls[0].Until, e.Calls[1].Until; !a.Equal(end) || !z.Equal(end.Add(1)) {
		t.Errorf("they end %s and %s after the last bound", a.Sub(end), z.Sub(end))
	}
}
