// Package waitqueue holds the requests of this process that wait for tokens. A request that took
// its tokens into debt sleeps until the debt is paid back. A request that found the queue full
// stands in line until there is room. The package makes no calls.
package waitqueue

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Queue holds all waiting requests of one process, each in the room of its bucket. It is ready once
// Rooms is set. It is safe for concurrent use, and guards the contents of the rooms.
type Queue struct {
	Rooms decide.Places[Room] // called with the queue's lock held

	mu     sync.Mutex
	recent [64]Return // the last returns, for requests that were charged but do not sleep yet
	given  int        // how many returns recent has received
	turns  atomic.Int64
}

// Room holds the requests of this process that wait for one bucket. The zero value is empty.
type Room struct {
	lines    map[string]*line // by class: a request that leaves more to others must not stand in front of them
	behind   []*line          // lines whose first request this bucket, a parent's, denied, in order of arrival
	sleepers []*Sleeper
}

// bell wakes a waiting request. It stores one ring until the request receives it.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // an earlier ring is still pending
	}
}

// Any reports whether a request sleeps for a bucket, or stands in a line of the bucket or behind
// it.
func (q *Queue) Any(n decide.Name) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.Rooms.Find(n)
	return room != nil && len(room.sleepers)+len(room.lines)+len(room.behind) > 0
}

// Wake is called when tokens or slots may have come back to a bucket. It lets the first request of
// each line ask again. Of the lines behind the bucket it wakes only one; once that is admitted, the
// next one asks. The returns are give-backs of leases that may concern sleepers.
func (q *Queue) Wake(n decide.Name, returns ...Return) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.Rooms.Find(n)
	for _, g := range returns {
		back := func(c table.Cost) bool { return c.Milli < 0 }
		if !g.Taken.before(g.Given, math.MaxInt64) || !slices.ContainsFunc(g.Costs, back) {
			continue
		}
		q.recent[q.given%len(q.recent)] = g
		q.given++
		if room == nil {
			continue
		}
		for _, s := range room.sleepers {
			s.hear(g)
		}
	}
	if room == nil {
		return
	}
	for _, l := range room.lines {
		l.all[0].turn.ring()
	}
	room.next()
}
