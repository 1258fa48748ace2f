package limiter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Under PolicyLocal a call without a decision is decided by buckets that this process
// keeps in memory, each with a share of its limits. They know nothing of the table,
// and the table nothing of them.

// share returns the part of a limit that this process may grant by itself: at least
// one token of capacity, and some refill.
func (l *localFacts) share(whole bucket.Limit) bucket.Limit {
	part := func(n int64) int64 { return n/100*l.percent + n%100*l.percent/100 }
	out := whole
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
		slot := bucket.Slot{Limit: l.share(c.Limit)}
		if room {
			slot.Tokens = slot.Capacity
		}
		if j := old.Index(slot.Name); j >= 0 {
			slot.Tokens = min(old.Slots[j].Tokens, slot.Capacity)
			slot.Rest = bucket.RescaleRest(old.Slots[j].Rest, old.Slots[j].Period, slot.Period)
			if old.Slots[j].SameEdges(slot.Limit) {
				slot.End = old.Slots[j].End
			} else if n := slot.FirstUse(); n > 0 && slot.Tokens < slot.Capacity {
				slot.End = bucket.AddSat(out.RF, n) // what is spent comes back with this period
			}
		}
		out.Slots[i] = slot
	}
	return out.At(out.RF) // in the periods of that instant
}

// errShare: the share of this process can never hold a cost.
var errShare = errors.New("more than this process's share of a limit")

// take takes the costs of all levels or of none. The error is a *LimitError or
// errShare.
func (all *locals) take(wants []decide.Want, now int64) ([]*Lease, error) {
	l := all.lock()
	defer all.mu.Unlock()
	leases, after := make([]*Lease, len(wants)), make([]bucket.State, len(wants))
	names := make([]decide.Name, len(wants))
	for i, w := range wants {
		names[i] = w.Name
	}
	room := l.makeRoom(now, names...)
	for i, w := range wants {
		state := l.at(w, room, now)
		costs, needs := make([]int64, len(w.Costs)), make([]int64, len(w.Costs))
		for j, c := range w.Costs {
			costs[j], needs[j] = c.Milli, localCost(c, state).Need(state)
		}
		state = state.Begin(costs)
		switch v := state.Decide(needs, now); {
		case v.At == bucket.Never:
			return nil, fmt.Errorf("%w: %d percent of %s", errShare, l.percent, public(w.Costs[v.Slot].Limit))
		case !v.Granted:
			return nil, localDenial(w, state, v, now)
		}
		after[i] = state.Take(costs)
		leases[i] = &Lease{name: w.Name, status: localStatus(w, after[i]), limits: table.LimitsOf(w.Costs),
			items: []leaseItem{{Part: decide.Part{Taken: w.Costs}, name: w.Name, local: true, state: after[i]}}}
	}
	for i, w := range wants {
		old, known := l.get(w.Name)
		if !room && !known { // it costs nothing, else it would be denied
			continue
		}
		for _, slot := range old.At(after[i].RF).Slots { // limits that other calls name keep their level
			if after[i].Index(slot.Name) < 0 && len(after[i].Slots) < bucket.MaxSlots {
				after[i].Slots = append(after[i].Slots, slot)
			}
		}
		l.set(w.Name, after[i])
	}
	return leases, nil
}

// adjust takes so much more from a bucket, into debt if need be, or gives it back. One
// that has been forgotten was full: it takes nothing back, and what it owes now is kept
// beyond the size, until it is full again. Nothing is given back to a later period of a quota.
func (all *locals) adjust(n decide.Name, costs []table.Cost, now int64) {
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

func localStatus(w decide.Want, state bucket.State) []Status {
	out := make([]Status, len(state.Slots))
	for i, sl := range state.Slots {
		out[i] = statusOf(w.Name.Entity, sl.Limit, sl.Tokens, sl.Rest, state.Rate(i).Edge)
		out[i].At = time.UnixMilli(state.RF).UTC()
		out[i].leave(localCost(w.Costs[i], state).FloorIn(state), sl, 0)
	}
	return out
}

func localDenial(w decide.Want, state bucket.State, v bucket.Verdict, now int64) *LimitError {
	short := w.Costs[v.Slot]
	e := &LimitError{
		Entity: w.Name.Entity, Resource: w.Name.Resource, Limit: short.Limit.Name,
		Wanted: short.Milli / bucket.Milli, RetryAfter: wait(now, v.At), Statuses: localStatus(w, state),
	}
	for i, sl := range state.Slots {
		if sl.Soft {
			continue
		}
		need := localCost(w.Costs[i], state).Need(state)
		e.Statuses[i].RetryAfter = wait(0, bucket.Wait(sl.Tokens, sl.Rest, state.Rate(i), need))
	}
	e.Remaining = e.Statuses[v.Slot].Remaining
	return e
}

// grant decides a request that has no decision because of cause. It needs the limits, which come
// from the call or from the configuration that was read last, however old. If they are not known,
// or the share can never hold the costs, the cause is returned.
func (l *Limiter) grant(req Request, own []bucket.Limit, cause error) (*Lease, error) {
	var wants []decide.Want
	for n := (decide.Name{Entity: req.Entity, Resource: req.Resource}); len(wants) < maxLevels; own = nil {
		cfg, err := l.configs.last(n, own)
		if errors.Is(err, ErrDisabled) {
			return nil, &opError{"acquire", n, ErrDisabled, err}
		}
		if err != nil {
			break
		}
		w, err := l.want(n, req, cfg)
		if denied, ok := errors.AsType[*LimitError](err); ok {
			return nil, denied // by a limit that blocks
		}
		if err != nil {
			return nil, cause
		}
		if slices.ContainsFunc(w.Costs, func(c table.Cost) bool { return isSlots(c) && c.Milli > 0 }) {
			return nil, cause // nobody can tell what other processes have in flight
		}
		w.Costs = slices.DeleteFunc(w.Costs, isSlots)
		wants = append(wants, w)
		if !cfg.cascade {
			break
		}
		n.Entity = cfg.parent
		if len(wants) == maxLevels { // or a circle: neither is charged while the table answers
			return nil, cause
		}
	}
	if len(wants) == 0 {
		return nil, cause
	}
	leases, err := l.locals.take(slices.DeleteFunc(slices.Clone(wants), isBypassed), l.now())
	switch {
	case errors.Is(err, errShare):
		return nil, errors.Join(cause, err)
	case err != nil:
		return nil, errors.Join(err, cause)
	}
	for _, lease := range leases {
		lease.limiter, lease.cause = l, cause
	}
	lease := l.besides(wants, leases, cause)
	lease.request = req
	return lease, nil
}
