// Package waitqueue has the requests of this process that wait for tokens. Those that have taken
// them into debt sleep until it is paid back. Those that found the queue full stand in line
// until it has room. It makes no calls.
package waitqueue

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Queue is all requests of one process that wait, each in the room of its bucket. It is ready once
// Rooms is set. It is safe for concurrent use, and guards all that is in the rooms.
type Queue struct {
	Rooms Rooms

	mu     sync.Mutex
	recent [64]Return // the last ones, for requests that are charged but do not sleep yet
	given  int        // how many recent has had so far
	turns  atomic.Int64
}

// Room is where the requests of this process wait for one bucket. The zero value is empty.
type Room struct {
	lines    map[string]*line // by class: a request that leaves more to others must not stand before them
	behind   []*line          // lines whose first this bucket, a parent's, has denied, as they came
	sleepers []*Sleeper
}

// Rooms are the rooms of all buckets. The queue calls it with its lock held.
type Rooms interface {
	// Find returns the room of a bucket, nil if it has none.
	Find(decide.Name) *Room
	// Pin returns the room of a bucket, a new one if it has none. The bucket keeps it until Unpin
	// was called as often.
	Pin(decide.Name) *Room
	Unpin(decide.Name)
}

func givesBack(c table.Cost) bool { return c.Milli < 0 }

// bell is how a request that waits is called: it holds one call until that is heard.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it was called before, and has not heard it yet
	}
}

// Any reports whether a request sleeps for a bucket, stands in a line of it, or in another's that it denies.
func (q *Queue) Any(n decide.Name) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.Rooms.Find(n)
	return room != nil && len(room.sleepers)+len(room.lines)+len(room.behind) > 0
}

// Wake is called when a bucket may have got something back. It lets the first of each line ask again, and of the
// lines behind the bucket only one: if that is let in, the next one asks. Returns are what leases have given back
// that may concern sleepers.
func (q *Queue) Wake(n decide.Name, returns ...Return) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.Rooms.Find(n)
	for _, g := range returns {
		if !g.Taken.before(g.Given, math.MaxInt64) || !slices.ContainsFunc(g.Costs, givesBack) {
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
