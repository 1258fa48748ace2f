package limiter

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// ErrSlotsLost says that a lease has lost its slots of an in-flight limit, because this process
// could not renew them in time. Others may take them. The context that [Limiter.Do] passes to its
// function ends with this cause.
var ErrSlotsLost = errors.New("limiter: slots lost")

// Lost returns a channel that is closed once the lease has lost its slots of an in-flight limit:
// they could not be renewed before others may take them. Work that must not go on without them
// should wait for it. The lease stays open; Commit and Rollback settle everything else. For a lease
// without slots the channel is nil, which blocks forever.
//
// Lost also looks at the clock. So after a process was frozen, a call of Lost returns a closed
// channel at once; a channel from an earlier call is closed within a sixth of an epoch.
func (le *Lease) Lost() <-chan struct{} {
	if le.slots == nil {
		return nil
	}
	le.limiter.desks.Slots.Look(le.slots, le.limiter.now())
	le.limiter.desks.ObserveLost()
	return le.slots.Lost()
}

// Within returns a context for work that must not go on without its slots. It ends with the cause
// [ErrSlotsLost] once the lease has lost slots of an in-flight limit (see [Lease.Lost]). Otherwise
// it ends with ctx. Call cancel when the work is done, as with [context.WithCancel]; that does not
// end the lease. [Limiter.Do], httplimit and grpclimit pass it to the functions that they call. For
// a lease without slots it costs next to nothing.
func (le *Lease) Within(ctx context.Context) (within context.Context, cancel context.CancelFunc) {
	lost := le.Lost()
	if lost == nil {
		return context.WithCancel(ctx)
	}
	within, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lost:
			end(ErrSlotsLost)
		case <-within.Done():
		}
	}()
	return within, func() { end(nil) }
}

// hold notes the slots that a new lease has taken, besides those that it has taken over, and begins
// to renew them. It goes on for as long as anybody has the lease, or until that ends.
func (l *Limiter) hold(le *Lease, wants []decide.Want, s *inflight.Lease) {
	for _, a := range le.levels() {
		s = l.slotsOf(a, le.name, wants, s)
	}
	if s == nil {
		return
	}
	le.slots = s
	le.request.Costs = maps.Clone(le.request.Costs) // for the event that reports returned slots
	for i, p := range le.request.Also {
		le.request.Also[i].Costs = maps.Clone(p.Costs)
	}
	runtime.AddCleanup(le, l.desks.Slots.Drop, s)
	l.desks.Slots.Add(s, l.now())
}

// slotsOf sets apart the slots that a lease has taken on one level, and adds them to s; nil
// is none. The caller has named the bucket n.
func (l *Limiter) slotsOf(a *charged, n decide.Name, wants []decide.Want, s *inflight.Lease) *inflight.Lease {
	for i, it := range a.items {
		if !slices.ContainsFunc(it.Taken, func(c table.Cost) bool { return isSlots(c) && c.Milli > 0 }) {
			continue
		}
		now := l.now()
		taken := desk.Pinned(it.Taken, a.image(), now)
		a.items[i].Taken = slices.Clone(it.Taken)
		for j, c := range taken {
			if isSlots(c) {
				a.items[i].Taken[j].Milli = 0
			}
			if !isSlots(c) || c.Milli <= 0 {
				continue
			}
			if s == nil {
				s = inflight.NewLease(n)
			}
			until := now + min(l.desks.Reusable(a.name, wants), c.Limit.Period)
			s.Take(inflight.Part{Name: a.name, Key: it.Key, TTL: a.image().TTL, Cost: c, From: now, Until: until})
		}
	}
	return s
}

// slotsIn returns an in-flight limit of the lease that costs are given for, if there is one.
func (le *Lease) slotsIn(costs Costs) string {
	le.mu.Lock()
	defer le.mu.Unlock()
	for _, a := range le.of(le.request.name()) {
		for _, l := range a.settles() {
			if l.Returns() && costs[l.Name] > 0 {
				return l.Name
			}
		}
	}
	return ""
}
