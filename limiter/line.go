package limiter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Requests in Wait that find the queue of a bucket full stand in line until it has
// room. The line is one of this process and in order of arrival; only the first in it
// asks, and lets as many follow at once as there is room for.

// lines are those of one process, by bucket. The zero value has none. It is safe for
// concurrent use.
type lines struct {
	mu sync.Mutex
	by map[known.Name]map[string]*oneLine // and by class: who leaves more does not stand before others
}

// oneLine is those who stand in line for one bucket.
type oneLine struct {
	all    []*standing
	missed int // how much more often than not others had taken the room, of late
}

// standing is a Wait that stands in line.
type standing struct {
	turn chan struct{} // holds one when it is to ask for room
}

// any reports whether somebody stands in line.
func (ls *lines) any(n known.Name, class string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.by[n][class] != nil
}

// join adds somebody at the end of a line.
func (ls *lines) join(n known.Name, class string) *standing {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	me := &standing{turn: make(chan struct{}, 1)}
	if ls.by == nil {
		ls.by = make(map[known.Name]map[string]*oneLine)
	}
	if ls.by[n] == nil {
		ls.by[n] = make(map[string]*oneLine, 1)
	}
	if ls.by[n][class] == nil {
		ls.by[n][class] = &oneLine{}
		me.call()
	}
	ls.by[n][class].all = append(ls.by[n][class].all, me)
	return me
}

// leave takes somebody out of a line. The next ones have their turn, the first of
// them in any case.
func (ls *lines) leave(n known.Name, class string, me *standing, next int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.by[n][class]
	if l.all = slices.DeleteFunc(l.all, func(o *standing) bool { return o == me }); len(l.all) == 0 {
		if delete(ls.by[n], class); len(ls.by[n]) == 0 {
			delete(ls.by, n)
		}
		return
	}
	for _, s := range l.all[:min(len(l.all), max(next, 1))] {
		s.call()
	}
}

// asked notes whether somebody who sent a write found that others had taken the room. It
// returns by how much that has been so of late, if it is the first of a line.
func (ls *lines) asked(n known.Name, class string, me *standing, sent, full bool) (missed int, first bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.by[n][class]
	switch {
	case sent && full:
		l.missed = min(l.missed+1, mostMissed)
	case sent:
		l.missed = max(l.missed-1, 0)
	}
	return l.missed, l.all[0] == me
}

// wake lets the first of each line of a bucket ask again, because the bucket has got tokens back.
func (ls *lines) wake(n known.Name) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.by[n] {
		l.all[0].call()
	}
}

// call gives somebody the turn.
func (s *standing) call() {
	select {
	case s.turn <- struct{}{}:
	default: // it has the turn already
	}
}

// standInLine waits for room in the queue, and takes the costs then.
func (l *Limiter) standInLine(ctx context.Context, n known.Name, req Request, tries *attempt) (lease *Lease,
	after time.Duration, err error) {
	me, follow := l.lines.join(n, req.Class), 0
	defer func() { l.lines.leave(n, req.Class, me, follow) }()
	asks := time.NewTimer(0)
	defer asks.Stop()
	asks.Stop()
	for {
		select {
		case <-me.turn:
		case <-asks.C:
		case <-ctx.Done():
			return nil, 0, canceled("wait", n, context.Cause(ctx), nil)
		}
		mine := waiting(tries.end)
		lease, after, err = l.reserve(ctx, req, mine)
		tries.Calls += mine.Calls
		tries.shared += mine.shared
		full := queueFull(err)
		missed, first := l.lines.asked(n, req.Class, me, mine.Calls > 0, full != nil)
		if full == nil {
			follow = followers(lease, req)
			return lease, after, err
		}
		if first {
			asks.Reset(min(longestPause, min(full.RetryAfter, longestPause)+full.patience(missed)))
		}
	}
}

const (
	// mostMissed bounds how long a process leaves a queue to others, see patience.
	mostMissed = 2
	// longestPause is how long the first in a line waits at most before it looks again: for
	// as long may it miss that an operator, or another process, has put tokens back.
	longestPause = 15 * time.Second
)

// patience is how much longer than until there is room somebody waits before asking for
// it: at random up to what refills half a capacity. Without it, the first in the line of
// every process would ask for every token: 16 processes would send 16 writes for it. Each
// time that others had taken the room it doubles, up to two capacities. Nobody loses by it:
// the last one let in waits for a whole capacity, and what is refilled while the bucket goes
// from a capacity owed to a capacity held is all there.
func (e *LimitError) patience(missed int) time.Duration {
	for _, s := range e.Statuses {
		if s.Limit == e.Limit {
			if s.Refill == 0 { // a quota: at its edge all ask
				return time.Duration(store.Random() % uint64(2*time.Second))
			}
			half := float64(s.Period) / float64(s.Refill) * float64(s.Capacity-s.Floor) / 2
			if s.Floor > 0 { // nobody owes there: it fills up meanwhile
				missed = min(missed, 1)
			}
			half *= float64(int(1) << missed)
			return time.Duration(store.Random() % uint64(min(half, float64(24*time.Hour))+1))
		}
	}
	return 0
}

// followers is how many more there is room for once somebody has been let in, if they
// want as much. Example: a level of -13 of a capacity of 20 has room for 7 tokens more.
func followers(lease *Lease, req Request) int {
	if lease == nil {
		return 1
	}
	n := int64(1)
	for i, s := range lease.Status() {
		cost := max(req.Costs[s.Limit], 1)
		room := (s.Remaining+s.Capacity)/cost + 1
		if s.InFlight || s.Floor > 0 { // nobody owes slots, nor what is for others
			room = s.Remaining / cost
		}
		if i == 0 || room < n {
			n = room
		}
	}
	return int(max(n, 1))
}
