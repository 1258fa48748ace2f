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

// A request that waits takes its costs at once, into debt, and may go on when the level is back at
// zero. So later requests, large and small, wait longer, in every process; while there is debt,
// Acquire is denied. The requests that owe are the queue, and their debt is bounded; a request that
// finds the queue full stands in line (see inLine).

// Wait acquires, and waits until the tokens are there, or ctx ends. It sends one write, which takes
// the tokens into debt, and sleeps for exactly as long as that debt takes to refill. If ctx ends
// first, it gives them back. It wakes sooner if this process gives back tokens that were taken
// before. If other processes or an operator give back so much that nothing is owed any more, it
// notices within 15 seconds: for all calls of this process that sleep for a shard, one reads it
// that often. It does not notice if the bucket has split or merged since. While calls wait,
// requests that do not wait are denied.
//
// The queue is bounded (see [ErrQueueFull]). While it is full, Wait waits for room, and then takes
// the tokens. Requests of one process enter in their order of arrival, as many at once as there is
// room for. Between processes, chance decides which is next. If other processes or an operator give
// tokens back, that lets requests in within 15 seconds.
//
// On one shard, and while no request leaves, the queue has the order in which DynamoDB took the
// writes. A bucket of several shards has a queue for each, and a request joins the one that is paid
// back first. So requests may overtake others by as much as the queues differ. Tokens that are
// given back, by a request that leaves or by a lease that has cost less, go to the next requests,
// even before sleepers of other processes.
//
// Slots of in-flight limits cannot be owed. A request that lacks some asks again when this process
// gives some back, and every few seconds for slots of other processes, in order of arrival in this
// process. Requests that do not wait may be faster: a call for several slots may wait for as long
// as others take single ones.
//
// All limits are taken from at once, before the wait. A limit that the request did not wait for may
// have refilled by the time it begins: its tokens were taken at the instant of the call.
//
// A wait that would exceed the deadline of ctx is denied with a *LimitError as soon as that is
// known: at once, unless others stand in line before it. Costs above the capacity are ErrTooLarge.
// Otherwise it fails like [Limiter.Acquire]. If ctx ends during the wait, the error is
// ErrCanceled, joined with a *SettleError if the tokens could not be given back.
func (l *Limiter) Wait(ctx context.Context, req Request) (*Lease, error) {
	end, _ := ctx.Deadline()
	begin, tries := l.begin(), waiting(end)
	lease, err := l.wait(ctx, req, tries)
	l.observeAcquire(ctx, req, begin, tries.Calls, lease, err)
	return lease, err
}

// wait takes the costs, as soon as the queue has room for them, and sleeps until they
// are paid back.
func (l *Limiter) wait(ctx context.Context, req Request, tries *desk.Attempt) (*Lease, error) {
	n := req.name()
	if !l.desks.Enter() {
		return nil, closed("acquire", n)
	}
	defer l.desks.Leave()
	tries.InLine = l.desks.Waiting.InLine(n, req.Class)
	lease, after, err := l.reserve(ctx, req, tries)
	if queueFull(err) != nil {
		lease, after, err = l.inLine(ctx, n, req, tries)
	}
	if err != nil || after == 0 {
		return lease, err
	}
	if l.desks.Sleep(ctx, tries.Owed, after) {
		return lease, nil
	}
	err = awoken(ctx, lease.name)
	return nil, errors.Join(err, lease.settleAll(context.WithoutCancel(ctx), "rollback", (*charged).back))
}

// Reserve is Wait without the waiting: the tokens are taken, and the request may go on after the
// returned time, zero if at once. Roll the lease back if that is too long. If the queue is full, it
// is denied with [ErrQueueFull]. The deadline of ctx bounds the call only. The caller does not
// learn of tokens that are given back sooner.
func (l *Limiter) Reserve(ctx context.Context, req Request) (*Lease, time.Duration, error) {
	begin, tries := l.begin(), waiting(time.Time{})
	lease, after, err := l.reserve(ctx, req, tries)
	l.observeAcquire(ctx, req, begin, tries.Calls, lease, err)
	return lease, after, err
}

// awoken is the error of a request whose wait has ended early, because of its context or of Close.
func awoken(ctx context.Context, n decide.Name) error {
	if ctx.Err() == nil {
		return closed("wait", n)
	}
	return canceled("wait", n, context.Cause(ctx), nil)
}

// reserve takes the costs, into debt if that is paid back in time.
func (l *Limiter) reserve(ctx context.Context, req Request, tries *desk.Attempt) (*Lease, time.Duration, error) {
	lease, _, err := l.acquire(ctx, req, tries)
	if err != nil {
		return lease, 0, err
	}
	now := l.now()
	return lease, wait(now, max(tries.GoesOn, now)), nil
}

// waiting is the initial state of a request that waits until end at most; zero: forever.
func waiting(end time.Time) *desk.Attempt {
	return &desk.Attempt{Waiter: decide.Waiter{Attempt: decide.Attempt{Waits: true}, End: end}}
}

// inLine waits for room in the queue, and takes the costs then.
func (l *Limiter) inLine(ctx context.Context, n decide.Name, req Request, tries *desk.Attempt) (lease *Lease,
	after time.Duration, err error) {
	me, follow := l.desks.Waiting.Stand(n, req.Class), 0
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

// patience is the additional time, after there is room, that a caller waits before asking for it:
// at random up to the time that refills half a capacity. Without it, the first in the line of every
// process would ask for every token: 16 processes would send 16 writes for it. If others had taken
// the room, it is up to the time of a whole capacity, and at least half as long if it happened
// again. It is never longer: by then everything that the queue owes is paid back, and without a
// request tokens would only pile up.
func (e *LimitError) patience(missed int) time.Duration {
	for _, s := range e.Statuses {
		if s.Limit == e.Limit {
			if s.Refill == 0 { // a quota: at its edge all ask
				return time.Duration(store.Random() % uint64(2*time.Second))
			}
			half := min(float64(s.Period)/float64(s.Refill)*float64(s.Capacity-s.Floor)/2, float64(24*time.Hour))
			least, most := half*float64(max(missed-1, 0)), half*float64(min(missed+1, 2))
			return time.Duration(least) + time.Duration(store.Random()%uint64(most-least+1))
		}
	}
	return 0
}

// followers is how many more requests there is room for once one has been let in, if they want as
// much. Example: a level of -13 with a capacity of 20 has room for 7 more tokens.
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
		for _, s := range lease.statusOf(a) {
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
