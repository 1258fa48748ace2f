package waitqueue

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// A request that finds the queue of a bucket full stands in line until there is room. Each line
// belongs to one process and is in order of arrival. Only the first request of a line asks. When it
// is admitted, as many others may ask at once as there is room for.

// mostMissed bounds the count of [Standing.Asked].
const mostMissed = 2

type line struct {
	all    []*Standing
	missed int         // how much more often than not others took the room recently
	at     decide.Name // the bucket that denied the first request
	parent *Room       // of at, if it is a parent's bucket
}

// Standing is a request in line.
type Standing struct {
	queue *Queue
	name  decide.Name
	room  *Room // of the named bucket, kept until the request leaves
	class string
	turn  bell // rings when the request should ask for room
}

// Turn returns a channel that receives a value each time the request should ask for room.
func (s *Standing) Turn() <-chan struct{} { return s.turn }

// InLine reports whether any request of a class is in line.
func (q *Queue) InLine(n decide.Name, class string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.Rooms.Find(n)
	return room != nil && room.lines[class] != nil
}

// Stand adds a request to the end of a line. Call Leave to end it.
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

// Leave removes the request from its line, and gives at least the first of the following ones its
// turn.
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

// Asked records whether a request that sent a write found that others had taken the room, and which
// bucket denied it: its own, or a parent's. It returns how much more often than not that happened
// recently, 0 to 2, and whether the request is the first of its line.
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

// next gives the first line behind a parent its turn.
func (r *Room) next() {
	if r != nil && len(r.behind) > 0 {
		r.behind[0].all[0].turn.ring()
	}
}

// move puts a line of a bucket behind the bucket that denied its first request. A parent keeps its
// room as long as a line is behind it.
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
