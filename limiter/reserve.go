package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
)

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
func (l *Limiter) reserve(ctx context.Context, req Request, tries *desk.Attempt) (*Lease, time.Duration, error) {
	lease, err := l.acquire(ctx, req, tries)
	if err != nil {
		return lease, 0, err
	}
	now := l.now()
	return lease, wait(now, max(tries.GoesOn, now)), nil
}

// waiting is what a request begins with that waits until an instant at most; zero: for ever.
func waiting(end time.Time) *desk.Attempt {
	return &desk.Attempt{Waiter: decide.Waiter{Attempt: decide.Attempt{Waits: true}, End: end}}
}
