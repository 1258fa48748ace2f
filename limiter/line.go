package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// emulatorLine waits for room in the queue, and takes the costs then.
func (l *Limiter) emulatorLine(ctx context.Context, n decide.Name, req Request, tries *desk.Attempt) (lease *Lease,
	after time.Duration, err error) {
	me, follow := l.desks.Lines.Join(n, req.Class), 0
	defer func() { me.Leave(follow) }()
	asks := time.NewTimer(0)
	defer asks.Stop()
	asks.Stop()
	for {
		select {
		case <-me.Turn():
		case <-asks.C:
		case <-ctx.Done():
			return nil, 0, awoken(ctx, n)
		case <-l.desks.Closing():
			return nil, 0, awoken(ctx, n)
		}
		mine := waiting(tries.End)
		mine.Standing = true
		lease, after, err = l.reserve(ctx, req, mine)
		tries.Calls += mine.Calls
		full := queueFull(err)
		at := n
		if full != nil {
			at = full.name()
		}
		missed, first := me.Asked(mine.Calls > 0, full != nil, at)
		if full == nil {
			follow, tries.Owed = followers(lease, req), mine.Owed
			return lease, after, err
		}
		if first {
			asks.Reset(min(waitqueue.LongestPause, min(full.RetryAfter, waitqueue.LongestPause)+full.patience(missed)))
		}
	}
}

// queueFull returns the denial of a request that found the queue full, nil for any other error. It
// is also nil if tokens of the request could not be given back, or may be taken: trying again would
// hide that from the caller.
func queueFull(err error) *LimitError {
	denied, ok := errors.AsType[*LimitError](err)
	_, kept := errors.AsType[*SettleError](err)
	if !ok || !denied.full || kept || errors.Is(err, ErrUnknown) {
		return nil
	}
	return denied
}

// patience is how much longer than until there is room somebody waits before asking for it: at
// random up to what refills half a capacity. Without it, the first in the line of every process
// would ask for every token: 16 processes would send 16 writes for it. Each time that others had
// taken the room it doubles, up to two capacities. Nobody loses by it. The last one let in waits
// for a whole capacity, and nothing overflows while the bucket goes from a capacity owed to a
// capacity held.
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
	lease.mu.Lock()
	defer lease.mu.Unlock()
	n, first, costs := int64(1), true, req.Costs
	for _, a := range lease.levels() {
		if p := req.also(a.name); p != nil {
			costs = p.Costs
		}
		for _, s := range a.statusOf() {
			cost := max(costs[s.Limit], 1)
			room := (s.Remaining+s.Capacity)/cost + 1
			if s.InFlight || s.Floor > 0 { // nobody owes slots, nor tokens below a floor
				room = s.Remaining / cost
			}
			if first || room < n {
				n, first = room, false
			}
		}
	}
	return int(max(n, 1))
}
