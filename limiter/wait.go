package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request that waits takes its costs at once, into debt, and may go on when the
// level is back at zero. So everybody who comes later waits for longer, large and
// small, in every process; while there is debt, Acquire is denied. Those who owe are
// the queue, and the debt is bounded; who finds it full stands in line (see line).

// Wait acquires, and waits until the tokens are there, or ctx ends. It sends one write, which takes
// the tokens into debt, and sleeps for exactly as long as that debt takes to refill. If ctx ends
// first, it gives them back. It wakes sooner if this process gives back tokens that were taken
// before. Other processes or an operator may put so much back that nothing is owed any more. The
// call notices within 15 seconds: of the calls of this process that sleep for a shard, one reads it
// that often for all. It does not notice if the bucket has split or merged since. While others
// wait, requests that do not wait are denied.
//
// The queue is bounded (see [ErrQueueFull]). While it is full, Wait waits for room, and takes
// the tokens then. Requests of one process enter in the order in which they came, as many at
// once as there is room for. Between processes chance decides who is next. When other
// processes or an operator put tokens back, that lets requests in within 15 seconds.
//
// On one shard, and while nobody leaves, the order is that in which DynamoDB has taken the writes.
// A bucket of several shards has a queue for each, and a request joins the one that is paid back
// first. So requests may overtake others by as much as the queues differ. Tokens that are given
// back, by somebody who leaves or by a lease that has cost less, go to those who come next, also
// before sleepers of other processes.
//
// All limits are taken from at once, before the wait. A limit that the request did not wait for
// may have refilled when it begins: its tokens are those of the instant at which it asked.
//
// A wait that would exceed the deadline of ctx is denied with a *LimitError as soon as that is
// known: at once, unless others stand in line before it. Costs above the capacity are
// ErrTooLarge. Other errors are those of [Limiter.Acquire]. If ctx ends during the wait, the
// error is ErrCanceled, joined with a *SettleError if the tokens could not be given back.
func (l *Limiter) Wait(ctx context.Context, req Request) (*Lease, error) {
	end, _ := ctx.Deadline()
	begin, tries := l.begin(), waiting(end)
	lease, err := l.wait(ctx, req, tries)
	l.tellAcquire(ctx, req, begin, tries, lease, err)
	return lease, err
}

// wait takes the costs, as soon as the queue has room for them, and sleeps until they
// are paid back.
func (l *Limiter) wait(ctx context.Context, req Request, tries *attempt) (*Lease, error) {
	n := known.Name{Entity: req.Entity, Resource: req.Resource}
	tries.InLine = l.lines.Any(n, req.Class)
	lease, after, err := l.reserve(ctx, req, tries)
	if queueFull(err) != nil {
		lease, after, err = l.standInLine(ctx, n, req, tries)
	}
	if err != nil || after == 0 {
		return lease, err
	}
	if l.sleep(ctx, tries.owed, after) {
		return lease, nil
	}
	return nil, errors.Join(canceled("wait", lease.name, context.Cause(ctx), nil), lease.Rollback(ctx))
}

// queueFull returns the denial of a request that found the queue full, nil for any other error. It
// is also nil if tokens of the request could not be given back: trying again would hide that from
// the caller.
func queueFull(err error) *LimitError {
	denied, ok := errors.AsType[*LimitError](err)
	if _, kept := errors.AsType[*SettleError](err); !ok || !denied.full || kept {
		return nil
	}
	return denied
}

// Reserve is Wait without the waiting: the tokens are taken, and the request may go
// on after the time that is returned, zero if at once. Roll the lease back if that
// is too long. Where the queue is full, it is denied with [ErrQueueFull]. The deadline
// of ctx bounds the call only. Nobody tells the caller if tokens are put back sooner.
func (l *Limiter) Reserve(ctx context.Context, req Request) (*Lease, time.Duration, error) {
	begin, tries := l.begin(), waiting(time.Time{})
	lease, after, err := l.reserve(ctx, req, tries)
	l.tellAcquire(ctx, req, begin, tries, lease, err)
	return lease, after, err
}

// reserve takes the costs, into debt if that is paid back in time.
func (l *Limiter) reserve(ctx context.Context, req Request, tries *attempt) (*Lease, time.Duration, error) {
	lease, err := l.acquire(ctx, req, tries)
	if err != nil {
		return lease, 0, err
	}
	now := l.now()
	return lease, wait(now, max(tries.goesOn, now)), nil
}

// waiting is what a request begins with that waits until an instant at most; zero: for ever.
func waiting(end time.Time) *attempt {
	return &attempt{Attempt: known.Attempt{Waits: true}, end: end}
}

// instant returns an instant of the system's clock by the one that decisions go by. That may
// be corrected at any time, so it holds for one decision. Zero is never.
func (l *Limiter) instant(t time.Time) int64 {
	if t.IsZero() {
		return bucket.Never
	}
	return bucket.AddSat(l.now(), time.Until(t).Milliseconds())
}

// place tells a request that waits from when it may go on, by the images of what it
// has been charged to. If that is too late, because others had come before whom the
// limiter did not know of, everything is given back and the request denied.
func (l *Limiter) place(ctx context.Context, k *desk, w known.Want, lease *Lease, tries *attempt) error {
	images := []table.Shard{lease.image()}
	if len(lease.items) > 1 { // a transaction brings no images
		var err error
		if images, err = l.readShards(ctx, k, w); err != nil {
			return keptBy(err, lease.Rollback(ctx))
		}
	}
	tries.goesOn, tries.owed = 0, nil
	full := false
	for _, b := range images {
		for _, it := range lease.items {
			if it.shard == b.State.Shard {
				owed := queue.Owed{Image: b, Limits: limitNames(w.Costs), Asked: tries.turn}
				tries.goesOn = max(tries.goesOn, known.PaidBack(b, owed.Limits))
				tries.owed = append(tries.owed, owed)
				room, _ := known.RoomIn(b, w, func(limit string) int64 { return -it.held(limit) })
				full = full || len(lease.items) == 1 && room > b.State.RF
			}
		}
	}
	until := l.instant(tries.end)
	if tries.goesOn <= until && !full {
		return nil
	}
	tries.goesOn = 0
	err := lease.Rollback(ctx)
	return errors.Join(limitError(w, k.Refusal(w, until, l.now())), err)
}

// keptBy is what is known of a request that a call has ended after it had taken its
// costs: if these could not be given back, they may be taken. What somebody has to set
// right stays that.
func keptBy(err, notGivenBack error) error {
	if notGivenBack == nil || store.KindOf(err) == store.Setup {
		return errors.Join(err, notGivenBack)
	}
	return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(err, notGivenBack)}
}
