package desk

import (
	"container/list"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A call without a decision is decided by buckets that this process keeps in memory, each with a
// share of its limits. They know nothing of the table, and the table knows nothing of them.

// Share returns the part of a limit, in percent, that a process may grant by itself: at least one
// token of capacity, and some refill.
func Share(whole bucket.Limit, percent int64) bucket.Limit {
	part := func(n int64) int64 { return n/100*percent + n%100*percent/100 }
	out := whole
	out.Plan = "" // the part in force stays
	out.Capacity = max(part(whole.Capacity), bucket.Milli)
	if whole.Refills() {
		out.Amount = max(part(whole.Amount), 1)
	}
	return out
}

// at returns the bucket at now, with limits in force as the table would bring them, except that no
// change raises a level: nothing stops requests here from changing limits back and forth. A new
// limit starts full if there is room for it, otherwise empty, in the place of one that is not
// requested.
func (l *localFacts) at(n decide.Name, shares []table.Cost, room bool, now int64) bucket.State {
	state, known := l.get(n)
	room = (room || known) && len(state.Slots) < bucket.MaxSlots
	state = state.At(now)
	for _, c := range shares {
		most := int64(bucket.Never)
		if i := state.Index(c.Limit.Name); i >= 0 {
			most = state.Slots[i].Tokens
		} else if !room {
			most = 0
		}
		state, _ = state.Adopt(c.Limit)
		sl := &state.Slots[state.Index(c.Limit.Name)]
		sl.Tokens = min(sl.Tokens, most)
	}
	for len(state.Slots) > bucket.MaxSlots {
		i := slices.IndexFunc(state.Slots, func(sl bucket.Slot) bool {
			_, asked := table.Find(shares, sl.Name)
			return !asked
		})
		state.Slots = slices.Delete(state.Slots, i, i+1)
	}
	return state
}

// ShareError is the error of a request that the share of this process can never hold.
type ShareError struct {
	Limit   bucket.Limit
	Percent int64
}

// Error implements error.
func (*ShareError) Error() string { return "more than this process's share of a limit" }

// Take takes the costs of all levels or of none. The error is a *Denied or an *ShareError.
func (all *Locals) Take(wants []decide.Want, now int64) ([]decide.Grant, error) {
	l := all.lock()
	defer all.mu.Unlock()
	grants, after := make([]decide.Grant, len(wants)), make([]bucket.State, len(wants))
	var names []decide.Name
	for i, w := range wants {
		if grants[i].Name = w.Name; !w.Bypass {
			names = append(names, w.Name)
		}
	}
	room := l.makeRoom(now, names...)
	for i, w := range wants {
		if w.Bypass {
			continue
		}
		shares := l.shares(w.Costs)
		state := l.at(w.Name, shares, room, now)
		costs, needs := make([]int64, len(state.Slots)), make([]int64, len(state.Slots))
		for j, sl := range state.Slots {
			if c, asked := table.Find(shares, sl.Name); asked {
				costs[j], needs[j] = c.Milli, c.Need(state)
			} else {
				needs[j] = -1
			}
		}
		state = state.Begin(costs)
		switch v := state.Decide(needs, now); {
		case v.At == bucket.Never:
			c, _ := table.Find(w.Costs, state.Slots[v.Slot].Name)
			return nil, &ShareError{c.Limit, l.percent}
		case !v.Granted:
			own := w
			own.Costs = shares
			denial := decide.DenialIn(state, own, v, now)
			return nil, &Denied{decide.Decision{Choice: decide.Choice{Do: decide.Deny}, Want: w, Denial: denial}}
		}
		state = state.Take(costs)
		after[i] = state
		grants[i] = decide.Grant{Name: w.Name, Parts: []decide.Part{{Taken: w.Costs}},
			Levels: decide.LevelsIn(state, shares), Limits: table.LimitsOf(w.Costs), Local: &state}
	}
	for i, w := range wants {
		if known := l.of(w.Name) != nil; !w.Bypass && (room || known) { // else it costs nothing: it would be denied
			l.set(w.Name, after[i])
		}
	}
	return grants, nil
}

// Adjust takes that much more from a bucket, into debt if necessary, or gives it back. A forgotten
// bucket was full: it takes nothing back, and its debt is now kept beyond the size, until it is
// full again. Nothing is given back to a later period of a quota.
func (all *Locals) Adjust(n decide.Name, costs []table.Cost, now int64) {
	l := all.lock()
	defer all.mu.Unlock()
	if !l.makeRoom(now, n) && !slices.ContainsFunc(costs, func(c table.Cost) bool { return c.Milli > 0 }) {
		return
	}
	state := l.at(n, l.shares(costs), true, now)
	if old, ok := l.get(n); ok {
		state = old.At(now)
	}
	needs := make([]int64, len(state.Slots))
	for _, c := range costs {
		if i := state.Index(c.Limit.Name); i >= 0 && !(c.Limit.Renews() && c.Milli < 0 && state.Slots[i].End != c.End) {
			needs[i] = c.Milli
		}
	}
	l.set(n, state.Begin(needs).Take(needs))
}

// shares returns costs with this process's share of their limits.
func (l *localFacts) shares(costs []table.Cost) []table.Cost {
	out := slices.Clone(costs)
	for i, c := range costs {
		out[i].Limit = Share(c.Limit, l.percent)
	}
	return out
}

// Locals are the buckets of PolicyLocal, each at its desk. Only full ones are forgotten, so none
// comes back fuller than it was. It is safe for concurrent use.
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
	all     list.List // of *localBucket, the least recently charged first
}

// localBucket is a bucket of PolicyLocal. Its desk is pinned.
type localBucket struct {
	desk  *Desk
	state bucket.State
	at    *list.Element // of localFacts.all
}

// NewLocals returns local buckets, at most as many as desks, with this share of each limit, in
// percent.
func NewLocals(percent int, d *Desks) *Locals {
	return &Locals{facts: localFacts{percent: int64(percent), size: max(d.Size, MaxLevels), desks: d.cache}}
}

// State returns a local bucket; ok is false if there is none.
func (all *Locals) State(n decide.Name) (state bucket.State, ok bool) {
	l := all.lock()
	defer all.mu.Unlock()
	return l.get(n)
}

// of returns a local bucket, nil if there is none.
func (l *localFacts) of(n decide.Name) *localBucket {
	if k := l.desks.Peek(n); k != nil {
		return k.local
	}
	return nil
}

// get is State, with the lock held.
func (l *localFacts) get(n decide.Name) (state bucket.State, ok bool) {
	if b := l.of(n); b != nil {
		return b.state, true
	}
	return state, false
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

// makeRoom forgets full buckets until there is room for the new ones of a request, and reports
// whether there is. Buckets that are not full go to the end of the list, so that others are checked
// next time. However small the size, there is room for the buckets of one request.
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
