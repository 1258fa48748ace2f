package waitqueue

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Requests that find the queue of a bucket full stand in line until it has room. A line belongs to
// this process and is in order of arrival. Only the first in it asks, and lets as many follow at
// once as there is room for.

// mostMissed bounds the count of [Standing.Asked].
const mostMissed = 2

type line struct {
	all    []*Standing
	missed int         // how much more often than not others took the room, of late
	at     decide.Name // the bucket that denied the first
	parent *Room       // of at, if it is a parent's bucket
}

// Standing is a request that stands in line.
type Standing struct {
	queue *Queue
	name  decide.Name
	room  *Room // of the named bucket, kept until it leaves
	class string
	turn  bell // rings when it is to ask for room
}

// Turn returns a channel that brings a value each time the request is to ask for room.
func (s *Standing) Turn() <-chan struct{} { return s.turn }

// InLine reports whether a request of a class stands in line.
func (q *Queue) InLine(n decide.Name, class string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.Rooms.Find(n)
	return room != nil && room.lines[class] != nil
}

// Stand adds a request at the end of a line. End it by Leave.
func (q *Queue) Stand(n decide.Name, class string) *Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	me := &Standing{q, n, q.Rooms.Pin(n), class, newBell()}
	if me.room.lines == nil {
		me.room.lines = make(map[string]*line)
	}
	l := me.room.lines[class]
	if l == nil {
		l = &line{}
		me.room.lines[class] = l
		me.turn.ring()
	}
	l.all = append(l.all, me)
	return me
}

// Leave takes the request out of its line. It gives the next ones their turn, at least the first.
func (s *Standing) Leave(next int) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.Rooms.Unpin(s.name)
	l := s.room.lines[s.class]
	if at := l.at; l.all[0] == s {
		q.move(l, s.name, s.name)
		defer func() { q.Rooms.Find(at).next() }() // there may be room for more
	}
	if l.all = slices.DeleteFunc(l.all, func(o *Standing) bool { return o == s }); len(l.all) == 0 {
		delete(s.room.lines, s.class)
		return
	}
	for _, o := range l.all[:min(len(l.all), max(next, 1))] {
		o.turn.ring()
	}
}

// Asked records whether a request that has sent a write found the room taken by others, and at
// which bucket: its own, or a parent's. It returns by how much that happened more often than not of
// late, 0 to 2, and whether the request is the first of its line.
func (s *Standing) Asked(sent, full bool, at decide.Name) (missed int, first bool) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	l := s.room.lines[s.class]
	if l.all[0] == s {
		q.move(l, s.name, at)
	}
	switch {
	case sent && full:
		l.missed = min(l.missed+1, mostMissed)
	case sent:
		l.missed = max(l.missed-1, 0)
	}
	return l.missed, l.all[0] == s
}

// next lets the first of the lines behind a parent ask.
func (r *Room) next() {
	if r != nil && len(r.behind) > 0 {
		r.behind[0].all[0].turn.ring()
	}
}

// move puts a line of a bucket behind the bucket that has denied its first. A parent keeps its room
// while a line is behind it.
func (q *Queue) move(l *line, own, at decide.Name) {
	if l.at == at {
		return
	}
	if l.parent != nil {
		l.parent.behind = slices.DeleteFunc(l.parent.behind, func(o *line) bool { return o == l })
		l.parent = nil
		q.Rooms.Unpin(l.at)
	}
	if l.at = at; at != own {
		l.parent = q.Rooms.Pin(at)
		l.parent.behind = append(l.parent.behind, l)
	}
}
