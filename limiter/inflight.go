package limiter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// ErrSlotsLost says that a lease has lost its slots of an in-flight limit, because this process
// could not renew them in time. Others may take them. It is the cause with which the context
// ends that [Limiter.Do] gives to its function.
var ErrSlotsLost = errors.New("limiter: slots lost")

// InFlight returns a limit of n slots: requests with costs of n together are at work at once.
//
//	limiter.InFlight("jobs", 20, 2*time.Minute)
//
// A request takes slots like tokens, in the same write. Commit and Rollback give all of them
// back. Every lease with slots must be ended by one of them, or be one of [Limiter.Do]. While
// a lease is open, this process renews its slots, by one write in each epoch for all leases
// of a bucket. No event reports renewals. [Lease.Lost] reports if one was not possible in time.
//
// Slots of a process that has died are free at the end of the epoch after their last renewal:
// between one and two epochs later. So are slots whose answer was lost. The epoch is 5s to
// 10m, a whole number of seconds. Short ones free the slots of the dead sooner, long ones
// cost fewer writes and outlast longer trouble with the table.
//
// With Options.Ahead a busy process keeps the slots of a lease that has ended for its next
// requests, which take them over without a write. It gives them back that long after it took
// them from the table, but no longer than an epoch, or half of the time in which the fastest
// limit fills. It keeps none that leave less than half of the slots free. For others, and for
// requests of a class with a floor, they are at work meanwhile, also if the process ends.
//
// A bucket has at most 3 in-flight limits. They cannot be soft. All slots are on one shard,
// so such a bucket is not split. Slots are no usage. Python clients do not know them.
//
// Never more than n are held at once, where clocks are within a second of the true time. A
// process that was frozen, or whose clock stood still, learns that it has lost its slots when
// it goes on: see [Lease.Lost].
func InFlight(name string, n int64, epoch time.Duration) Limit {
	return Limit{Name: name, Capacity: n, Period: epoch, InFlight: true}
}

// validateInFlight is validate for what only in-flight limits have.
func (l Limit) validateInFlight(label func(part string) string) error {
	const least, most = bucket.MinEpoch * time.Millisecond, bucket.MaxEpoch * time.Millisecond
	switch {
	case l.Refill != 0 || l.IsQuota():
		beside := validate.Plain(fmt.Sprintf("%d and %q", l.Refill, string(l.Reset)))
		return validate.Invalid(label("Refill and Reset"), beside,
			"none beside InFlight: slots come back when their holders are done")
	case l.Soft:
		return validate.Invalid(label("Soft"), true, "false beside InFlight")
	case l.Period < least || l.Period > most || l.Period%time.Second != 0:
		return validate.Invalid(label("Period"), l.Period,
			fmt.Sprintf("an epoch of a whole number of seconds from %s to %s", least, most))
	}
	return nil
}

// Lost returns a channel that is closed once the lease has lost its slots of an in-flight
// limit: they could not be renewed before somebody else may take them. Work that must not go
// on then waits for it. The lease stays open; Commit and Rollback settle everything else. It
// is nil, which blocks for ever, for a lease without slots.
//
// It looks at the clock too. So after a process was frozen, a call of Lost returns a closed
// channel at once; an earlier channel is closed within a sixth of an epoch.
func (le *Lease) Lost() <-chan struct{} {
	if le.slots == nil {
		return nil
	}
	le.limiter.desks.Slots.Look(le.slots, le.limiter.now())
	le.limiter.desks.ObserveLost()
	return le.slots.Lost()
}

// Within returns a context for work that must not go on without its slots. It ends with the cause
// [ErrSlotsLost] once the lease has lost slots of an in-flight limit (see [Lease.Lost]).
// Otherwise it ends as ctx does. Call cancel when the work is done, as with
// [context.WithCancel]; it does not end the lease. [Limiter.Do], httplimit and grpclimit give it
// to what they call. For a lease without slots it costs next to nothing.
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

// hold notes the slots that a new lease has taken, besides those that it has taken over, and begins to
// renew them. It goes on for as long as anybody has the lease, or until that ends.
func (l *Limiter) hold(le *Lease, wants []decide.Want, s *inflight.Lease) {
	for _, a := range le.levels() {
		s = l.slotsOf(a, le.name, wants, s)
	}
	if s == nil {
		return
	}
	le.slots = s
	runtime.AddCleanup(le, l.desks.Slots.Drop, s)
	l.desks.Slots.Add(s, l.now())
}

// slotsOf sets apart the slots that a lease has taken on one level, and adds them to s; nil
// is none. The caller has named the bucket n.
func (l *Limiter) slotsOf(a *Lease, n decide.Name, wants []decide.Want, s *inflight.Lease) *inflight.Lease {
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
			until := now + min(l.desks.Reusable(it.name, wants), c.Limit.Period)
			s.Take(inflight.Part{Name: it.name, Key: it.Key, TTL: a.image().TTL, Cost: c, From: now, Until: until})
		}
	}
	return s
}

func isSlots(c table.Cost) bool { return c.Limit.Returns() }
