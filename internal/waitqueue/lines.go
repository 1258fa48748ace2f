package waitqueue

import (
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Requests that find the queue of a bucket full stand in line until it has room. A line belongs to
// this process and is in order of arrival. Only the first in it asks, and lets as many follow at
// once as there is room for.

// mostMissed bounds the count of [Standing.Asked].
const mostMissed = 2

// Lines are the lines of one process, in the rooms of the buckets. It is ready once Rooms is set.
// It is safe for concurrent use, and guards the lines in the rooms.
type Lines struct {
	Rooms Rooms

	mu sync.Mutex
}

type oneLine struct {
	all    []*Standing
	missed int         // how much more often than not others took the room, of late
	at     decide.Name // the bucket that denied the first
	parent *Room       // of at, if it is a parent's bucket
}

// Standing is a request that stands in line.
type Standing struct {
	lines *Lines
	name  decide.Name
	room  *Room // of the named bucket, kept until it leaves
	class string
	turn  chan struct{} // holds one when it is to ask for room
}

// Turn returns a channel that brings a value each time the request is to ask for room.
func (s *Standing) Turn() <-chan struct{} { return s.turn }

// Any reports whether a request stands in line.
func (ls *Lines) Any(n decide.Name, class string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	room := ls.Rooms.Find(n)
	return room != nil && room.lines[class] != nil
}

// AnyAt reports whether a request stands in a line of the bucket, or in another's that it denies.
func (ls *Lines) AnyAt(n decide.Name) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	room := ls.Rooms.Find(n)
	return room != nil && len(room.lines)+len(room.behind) > 0
}

// Join adds a request at the end of a line. End it by Leave.
func (ls *Lines) Join(n decide.Name, class string) *Standing {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	me := &Standing{ls, n, ls.Rooms.Pin(n), class, make(chan struct{}, 1)}
	if me.room.lines == nil {
		me.room.lines = make(map[string]*oneLine)
	}
	l := me.room.lines[class]
	if l == nil {
		l = &oneLine{}
		me.room.lines[class] = l
		me.call()
	}
	l.all = append(l.all, me)
	return me
}

// Leave takes the request out of its line. It gives the next ones their turn, at least the first.
func (s *Standing) Leave(next int) {
	ls := s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	defer ls.Rooms.Unpin(s.name)
	l := s.room.lines[s.class]
	if at := l.at; l.all[0] == s {
		ls.move(l, s.name, s.name)
		defer ls.next(at) // there may be room for more
	}
	if l.all = slices.DeleteFunc(l.all, func(o *Standing) bool { return o == s }); len(l.all) == 0 {
		delete(s.room.lines, s.class)
		return
	}
	for _, o := range l.all[:min(len(l.all), max(next, 1))] {
		o.call()
	}
}

// Asked records whether a request that has sent a write found the room taken by others, and at
// which bucket: its own, or a parent's. It returns by how much that happened more often than not of
// late, 0 to 2, and whether the request is the first of its line.
func (s *Standing) Asked(sent, full bool, at decide.Name) (missed int, first bool) {
	ls := s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := s.room.lines[s.class]
	if l.all[0] == s {
		ls.move(l, s.name, at)
	}
	switch {
	case sent && full:
		l.missed = min(l.missed+1, mostMissed)
	case sent:
		l.missed = max(l.missed-1, 0)
	}
	return l.missed, l.all[0] == s
}

// Wake lets the first of each line of a bucket ask again, because the bucket has got tokens back.
// Of its children's lines only one asks: if it is let in, the next one asks.
func (ls *Lines) Wake(n decide.Name) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if room := ls.Rooms.Find(n); room != nil {
		for _, l := range room.lines {
			l.all[0].call()
		}
	}
	ls.next(n)
}

// next lets the first of the lines behind a parent ask.
func (ls *Lines) next(n decide.Name) {
	if room := ls.Rooms.Find(n); room != nil && len(room.behind) > 0 {
		room.behind[0].all[0].call()
	}
}

// move puts a line of a bucket behind the bucket that has denied its first. A parent keeps its room
// while a line is behind it.
func (ls *Lines) move(l *oneLine, own, at decide.Name) {
	if l.at == at {
		return
	}
	if l.parent != nil {
		l.parent.behind = slices.DeleteFunc(l.parent.behind, func(o *oneLine) bool { return o == l })
		l.parent = nil
		ls.Rooms.Unpin(l.at)
	}
	if l.at = at; at != own {
		l.parent = ls.Rooms.Pin(at)
		l.parent.behind = append(l.parent.behind, l)
	}
}

// call gives the request its turn.
func (s *Standing) call() {
	select {
	case s.turn <- struct{}{}:
	default: // it has the turn already
	}
}

// Room is where the requests of this process wait for one bucket. The zero value is empty.
type Room struct {
	// Guarded by the Lines.
	lines  map[string]*oneLine // by class: a request that leaves more to others must not stand before them
	behind []*oneLine          // lines whose first this bucket, a parent's, has denied, as they came

	sleepers []*Sleeper // guarded by the Sleepers
}

// Rooms are the rooms of all buckets. Lines and Sleepers call it with their locks held.
type Rooms interface {
	// Find returns the room of a bucket, nil if it has none.
	Find(decide.Name) *Room
	// Pin returns the room of a bucket, a new one if it has none. The bucket keeps it until Unpin
	// was called as often.
	Pin(decide.Name) *Room
	Unpin(decide.Name)
}
