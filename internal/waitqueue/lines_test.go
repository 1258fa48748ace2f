package waitqueue

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

func (s *Standing) called() bool {
	select {
	case <-s.Turn():
		return true
	default:
		return false
	}
}

func called(all ...*Standing) (out string) {
	for _, s := range all {
		if s.called() {
			out += "x"
		} else {
			out += "."
		}
	}
	return out
}

// The first request in a line may ask at once. When it leaves, the next ones may ask, as many as
// there is room for, but at least one.
func TestTheFirstInALineMayAsk(t *testing.T) {
	all := rooms{}
	ls := Queue{Rooms: all}
	a, b, c, d := ls.Stand(acme, ""), ls.Stand(acme, ""), ls.Stand(acme, ""), ls.Stand(acme, "")
	check.Equal(t, called(a, b, c, d), "x...", "may ask at first")
	b.Leave(0) // from the middle: the first may ask again
	check.Equal(t, called(a, c, d), "x..", "may ask after the second has left")
	a.Leave(2)
	check.Equal(t, called(c, d), "xx", "may ask with room for two")
	c.Leave(9)
	check.Equal(t, called(d), "x", "the last one has no turn")
	if d.Leave(1); len(all) != 0 || ls.InLine(acme, "") {
		t.Error("a request is left in line")
	}
	if !ls.Stand(acme, "").called() {
		t.Error("the first of a new line has no turn")
	}
}

// Each class of each bucket has its own line. Tokens given back to a bucket wake the first of each
// of its lines.
func TestClassesHaveTheirOwnLines(t *testing.T) {
	rooms := rooms{}
	ls := Queue{Rooms: rooms}
	other := acme
	other.Entity = "other"
	all := []*Standing{ls.Stand(acme, ""), ls.Stand(acme, ""), ls.Stand(acme, "batch"), ls.Stand(other, "")}
	if got := called(all...); got != "x.xx" || len(rooms) != 2 {
		t.Errorf("at first %s may ask, of %d buckets", got, len(rooms))
	}
	ls.Wake(acme)
	check.Equal(t, called(all...), "x.x.", "not the first of each line of the bucket is woken")
	all[0].turn.ring()
	all[0].turn.ring() // it has the turn already
	check.Equal(t, called(all[0], all[0]), "x.", "called twice, it may ask")
	all[2].Leave(1)
	for _, c := range []struct {
		class string
		want  bool
	}{{"", true}, {"batch", false}, {"free", false}} {
		check.Equal(t, ls.InLine(acme, c.class), c.want, "a request of class %q is in line", c.class)
	}
}

// A write that finds the room taken counts one miss, up to two. A write that finds room removes
// one. A request without a write changes nothing.
func TestMissesAreCountedUpToTwo(t *testing.T) {
	ls := Queue{Rooms: rooms{}}
	first, second := ls.Stand(acme, ""), ls.Stand(acme, "")
	got := ""
	for _, c := range []struct{ sent, full bool }{
		{false, true}, {true, true}, {true, true}, {true, true}, {false, false}, {true, false}, {true, false}, {true, false},
	} {
		missed, isFirst := first.Asked(c.sent, c.full, acme)
		got += fmt.Sprint(missed)
		if !isFirst {
			t.Error("after the first")
		}
	}
	check.Equal(t, got, "01222100", "missed")
	if _, isFirst := second.Asked(true, true, acme); isFirst {
		t.Error("after the second")
	}
}

// Tokens given back to a parent wake one of the lines that it denied, in the order of their
// denials. When a request is granted or leaves, the next line may ask. A line that its own bucket
// denies again no longer waits for the parent.
func TestParentsWakeTheLinesTheyDenied(t *testing.T) {
	all := rooms{}
	ls := Queue{Rooms: all}
	org := decide.Name{Entity: "org", Resource: acme.Resource}
	join := func(entity string) *Standing {
		return ls.Stand(decide.Name{Entity: entity, Resource: acme.Resource}, "")
	}
	a, b, c := join("a"), join("b"), join("c")
	after := join("b")
	called(a, b, c, after)
	wants := func(when, want string) {
		t.Helper()
		check.Equal(t, called(a, b, c, after), want, "%s: may ask", when)
	}
	ls.Wake(org)
	wants("nobody was denied by the parent", "....")
	for _, s := range []*Standing{b, a, c} {
		s.Asked(true, true, org)
		s.Asked(true, true, org)
	}
	after.Asked(true, true, org) // not the first
	if !ls.Any(org) {
		t.Error("no request waits for the parent")
	}
	ls.Wake(org)
	wants("the parent has something", ".x..")
	b.Leave(1)
	wants("the first is let in", "x..x")
	after.Asked(true, true, org)
	a.Asked(true, true, a.name)
	ls.Wake(org)
	wants("the next one is denied by its own", "..x.")
	c.Leave(1)
	wants("it has left", "...x")
	after.Leave(1)
	a.Leave(1)
	check.Equal(t, len(all), 0, "left in line: %v", all)
}
