package limiter

import (
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request in Wait has taken its costs into debt, on top of what others had taken
// before it, and sleeps until the level is back at zero. If a lease of this process
// gives tokens back that were taken earlier, because its caller leaves or the work has
// cost less, the level gets there sooner, and the sleeper is told. What other processes
// give back is there for the requests that follow; what is left of it is found by a look
// (see lookFor).

// sleeper is a Wait that sleeps.
type sleeper struct {
	parts  []debtor
	sooner chan struct{} // holds one when it may go on sooner than it knows
}

// debtor is what a sleeper owes on one shard.
type debtor struct {
	name   known.Name
	key    item.Key
	image  table.Shard // as its charge left it, and what was given back since
	limits []string    // in force
	paid   int64       // from when nothing is owed any more, as looks have shown; bucket.Never without one
	looked time.Time   // when the shard was last read, or charged
}

// givenBack is what a lease has given back on one shard.
type givenBack struct {
	name  known.Name
	taken moment // when it was taken
	given moment // when it was given back
	costs []table.Cost
}

// moment is a point in the history of a shard.
type moment struct {
	shard      int
	generation int64
	writes     int64 // that the meter has counted
	known      bool
}

func momentOf(b table.Shard) moment {
	i := b.State.Index(bucket.WCU)
	if i < 0 || b.Entity == "" {
		return moment{}
	}
	return moment{b.State.Shard, b.Generation, b.State.Slots[i].Used, true}
}

// before reports whether a point was certainly before another.
func (m moment) before(o moment) bool {
	return m.known && o.known && m.shard == o.shard && m.generation == o.generation && m.writes < o.writes
}

// hear adds what was given back to the debtor's level, and reports whether it concerns
// the debtor: that is so for what was taken before its charge and given back after it.
// What was given back before the charge, its image shows already; what was taken after
// it, the debtor does not wait for.
func (d *debtor) hear(g givenBack) bool {
	mine := momentOf(d.image)
	if d.name != g.name || !g.taken.before(mine) || !mine.before(g.given) {
		return false
	}
	for _, c := range g.costs {
		if j := d.image.State.Index(c.Limit.Name); j >= 0 && c.Milli < 0 {
			slot := &d.image.State.Slots[j]
			slot.Tokens = bucket.SubSat(slot.Tokens, c.Milli)
		}
	}
	return true
}

// sleepers are those of one process, by bucket. The zero value has none. It is safe
// for concurrent use, and guards what is in the sleepers.
type sleepers struct {
	mu     sync.Mutex
	by     map[known.Name][]*sleeper
	recent [64]givenBack // the last ones, for requests that are charged but do not sleep yet
	given  int           // how many recent has had
}

// add lets somebody sleep with a lease. It returns nil if nothing is known that could
// wake it: of a lease on several shards.
func (all *sleepers) add(lease *Lease) *sleeper {
	s := &sleeper{sooner: make(chan struct{}, 1)}
	for _, level := range lease.levels() {
		if len(level.items) != 1 || level.image.Entity == "" || level.image.State.Shard != level.items[0].shard {
			return nil
		}
		image := level.image
		image.State.Slots = slices.Clone(image.State.Slots)
		part := debtor{name: level.name, key: level.items[0].key, image: image, paid: bucket.Never, looked: time.Now()}
		for _, status := range level.status {
			part.limits = append(part.limits, status.Limit)
		}
		s.parts = append(s.parts, part)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.by == nil {
		all.by = make(map[known.Name][]*sleeper)
	}
	for _, part := range s.parts {
		all.by[part.name] = append(all.by[part.name], s)
	}
	for _, g := range all.recent {
		s.hear(g)
	}
	return s
}

// remove forgets a sleeper; nil is none.
func (all *sleepers) remove(s *sleeper) {
	if s == nil {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, part := range s.parts {
		left := slices.DeleteFunc(all.by[part.name], func(o *sleeper) bool { return o == s })
		if all.by[part.name] = left; len(left) == 0 {
			delete(all.by, part.name)
		}
	}
}

// wake tells those who sleep behind a lease what it has given back.
func (all *sleepers) wake(g givenBack) {
	if !g.taken.before(g.given) || !slices.ContainsFunc(g.costs, func(c table.Cost) bool { return c.Milli < 0 }) {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.recent[all.given%len(all.recent)] = g
	all.given++
	for _, s := range all.by[g.name] {
		s.hear(g)
	}
}

// hear tells a sleeper what was given back; the lock of the sleepers is held.
func (s *sleeper) hear(g givenBack) {
	for i := range s.parts {
		if s.parts[i].hear(g) {
			s.wake()
		}
	}
}

// wake lets a sleeper ask from when it may go on.
func (s *sleeper) wake() {
	select {
	case s.sooner <- struct{}{}:
	default: // it was told before, and has not asked yet
	}
}

// until returns from when it may go on.
func (all *sleepers) until(s *sleeper) int64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	at := int64(0)
	for _, part := range s.parts {
		at = max(at, min(part.paid, known.PaidBack(part.image, part.limits)))
	}
	return at
}
