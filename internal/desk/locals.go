package desk

import (
	"container/list"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Locals are the buckets of PolicyLocal, each at its desk. Only those that are full are forgotten,
// so none is ever fuller than it was. It is safe for concurrent use.
type Locals struct {
	mu    sync.Mutex
	facts localFacts // reached by lock only
}

// Len returns how many local buckets there are.
func (all *Locals) Len() int {
	l := all.lock()
	defer all.mu.Unlock()
	return l.all.Len()
}

// lock locks the buckets, until the caller unlocks mu.
func (all *Locals) lock() *localFacts {
	all.mu.Lock()
	return &all.facts
}

// localFacts are the buckets themselves. A function that has them holds their lock.
type localFacts struct {
	percent int64
	size    int // how many there are at most
	desks   *cache
	all     list.List // of *localBucket, the least recently used first
}

// localBucket is a bucket of PolicyLocal. Its desk is pinned.
type localBucket struct {
	desk  *Desk
	state bucket.State
	at    *list.Element // of localFacts.all
}

// NewLocals returns local buckets, as many as desks at most, with such a share of each limit, in percent.
func NewLocals(percent int, d *Desks) *Locals {
	return &Locals{facts: localFacts{percent: int64(percent), size: max(d.Size, MaxLevels), desks: d.cache}}
}

// State returns a local bucket, which does not count as used by it; ok is false if there is none.
func (all *Locals) State(n decide.Name) (state bucket.State, ok bool) {
	l := all.lock()
	defer all.mu.Unlock()
	if b := l.of(n); b != nil {
		return b.state, true
	}
	return state, false
}

// of returns a local bucket, nil if there is none.
func (l *localFacts) of(n decide.Name) *localBucket {
	if k := l.desks.Peek(n); k != nil {
		return k.local
	}
	return nil
}

// get returns the state of a bucket, which counts as used by it.
func (l *localFacts) get(n decide.Name) (state bucket.State, ok bool) {
	b := l.of(n)
	if b == nil {
		return bucket.State{}, false
	}
	l.all.MoveToBack(b.at)
	return b.state, true
}

// set changes the state of a bucket, a new one if there is none.
func (l *localFacts) set(n decide.Name, state bucket.State) {
	b := l.of(n)
	if b == nil {
		b = &localBucket{desk: l.desks.Pin(n)}
		b.at, b.desk.local = l.all.PushBack(b), b
	}
	b.state = state
	l.all.MoveToBack(b.at)
}

// forget drops a bucket.
func (l *localFacts) forget(b *localBucket) {
	l.all.Remove(b.at)
	b.desk.local = nil
	l.desks.Unpin(b.desk.Name)
}

// maxFullSought is how many buckets that cannot be forgotten are looked at.
const maxFullSought = 8

// makeRoom forgets full buckets until there is room for the new ones among some, and
// reports whether there is. Those that are not full go to the end of the line, so that
// others are looked at the next time. There is room for as many as one request wants.
func (l *localFacts) makeRoom(now int64, wants ...decide.Name) bool {
	fresh := 0
	for _, n := range wants {
		if l.of(n) == nil {
			fresh++
		}
	}
	for sought := 0; fresh > 0 && l.all.Len()+fresh > max(l.size, len(wants)); {
		if sought == maxFullSought {
			return false
		}
		oldest := l.all.Front().Value.(*localBucket)
		if oldest.state.FullAt(now) <= now && !slices.Contains(wants, oldest.desk.Name) {
			l.forget(oldest)
		} else {
			l.all.MoveToBack(oldest.at)
			sought++
		}
	}
	return true
}
