package desk

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A call without a decision is decided by buckets that this process
// keeps in memory, each with a share of its limits. They know nothing of the table,
// and the table nothing of them.

// Share returns the part of a limit, in percent, that a process may grant by itself: at least
// one token of capacity, and some refill.
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

// at returns the bucket at now under the limits in force. A limit that is new begins
// full if there is room for it, else empty.
func (l *localFacts) at(w decide.Want, room bool, now int64) bucket.State {
	old, known := l.get(w.Name)
	old = old.At(now)
	out := bucket.State{Shards: 1, RF: old.RF, Slots: make([]bucket.Slot, len(w.Costs))}
	room = (room || known) && len(old.Slots) < bucket.MaxSlots
	for i, c := range w.Costs {
		slot := bucket.Slot{Limit: Share(c.Limit, l.percent)}
		if room {
			slot.Tokens = slot.Capacity
		}
		if j := old.Index(slot.Name); j >= 0 {
			slot.Tokens = min(old.Slots[j].Tokens, slot.Capacity)
			slot.Rest = bucket.RescaleRest(old.Slots[j].Rest, old.Slots[j].Period, slot.Period)
			if old.Slots[j].SameEdges(slot.Limit) {
				slot.End = old.Slots[j].End
			} else if n := slot.FirstUse(); n > 0 && slot.Tokens < slot.Capacity {
				slot.End = bucket.AddSat(out.RF, n) // spent tokens come back with this period
			}
		}
		out.Slots[i] = slot
	}
	return out.At(out.RF) // in the periods of the instant
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
		state := l.at(w, room, now)
		costs, needs := make([]int64, len(w.Costs)), make([]int64, len(w.Costs))
		for j, c := range w.Costs {
			costs[j], needs[j] = c.Milli, localCost(c, state).Need(state)
		}
		state = state.Begin(costs)
		switch v := state.Decide(needs, now); {
		case v.At == bucket.Never:
			return nil, &ShareError{w.Costs[v.Slot].Limit, l.percent}
		case !v.Granted:
			return nil, localDenial(w, state, v, now)
		}
		state = state.Take(costs)
		after[i] = state
		grants[i] = decide.Grant{Name: w.Name, Parts: []decide.Part{{Taken: w.Costs}}, Levels: localLevels(w, state),
			Limits: table.LimitsOf(w.Costs), Local: &state}
	}
	for i, w := range wants {
		old, known := l.get(w.Name)
		if w.Bypass || !room && !known { // it costs nothing, else it would be denied
			continue
		}
		for _, slot := range old.At(after[i].RF).Slots { // limits that other calls name keep their level
			if after[i].Index(slot.Name) < 0 && len(after[i].Slots) < bucket.MaxSlots {
				after[i].Slots = append(after[i].Slots, slot)
			}
		}
		l.set(w.Name, after[i])
	}
	return grants, nil
}

// Adjust takes so much more from a bucket, into debt if need be, or gives it back. One
// that has been forgotten was full: it takes nothing back, and what it owes now is kept
// beyond the size, until it is full again. Nothing is given back to a later period of a quota.
func (all *Locals) Adjust(n decide.Name, costs []table.Cost, now int64) {
	l := all.lock()
	defer all.mu.Unlock()
	if !l.makeRoom(now, n) && !slices.ContainsFunc(costs, func(c table.Cost) bool { return c.Milli > 0 }) {
		return
	}
	state := l.at(decide.Want{Name: n, Costs: costs}, true, now)
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

// localCost is a cost of the share of its limit that a local bucket has.
func localCost(c table.Cost, state bucket.State) table.Cost {
	c.Limit = state.Slots[state.Index(c.Limit.Name)].Limit
	return c
}

// localLevels are the levels of a local bucket, of the limits in force.
func localLevels(w decide.Want, state bucket.State) []decide.Level {
	out := make([]decide.Level, len(state.Slots))
	for i, sl := range state.Slots {
		l := decide.Level{Limit: sl.Limit, At: state.RF, Milli: sl.Tokens, Rest: sl.Rest, Edge: state.Rate(i).Edge}
		if l.Floor = localCost(w.Costs[i], state).FloorIn(state); sl.Soft {
			l.Floor = 0
		}
		l.Remaining = bucket.WholeTokens(l.Milli)
		if l.Floor > 0 {
			l.Remaining = bucket.WholeAbove(l.Milli, l.Floor)
		}
		out[i] = l
	}
	return out
}

func localDenial(w decide.Want, state bucket.State, v bucket.Verdict, now int64) *Denied {
	denial := decide.Denial{Limit: w.Costs[v.Slot].Limit.Name, After: bucket.SubSat(v.At, now)}
	denial.Levels = localLevels(w, state)
	for i, sl := range state.Slots {
		if !sl.Soft {
			need := localCost(w.Costs[i], state).Need(state)
			denial.Levels[i].After = bucket.Wait(sl.Tokens, sl.Rest, state.Rate(i), need)
		}
	}
	return &Denied{decide.Decision{Choice: decide.Choice{Do: decide.Deny}, Want: w, Denial: denial}}
}
