// Package clients makes requests like users do, and records their observations: the tokens of every
// limit, and the outcomes of the requests.
package clients

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Call is one request: it acquires, works, and settles.
type Call struct {
	limiter.Request
	Rules  []limiter.Limit // in force; nil: the limits of the request
	Hold   time.Duration   // how long the work takes
	Fails  bool            // the work fails, and everything is given back
	Settle limiter.Costs   // the final costs, if they differ from the request's
}

// Ends counts the outcomes of requests.
type Ends struct {
	Granted, Denied, Unavailable, Unknown int
	Adjusted, RolledBack                  int // of the granted
	Lost                                  int // of the granted, settlements without an answer
	Unsettled                             int // of the granted, settlements that were not written
}

// Book is the clients' own records, independent of everything stored. Its zero value is empty. It
// is safe for concurrent use.
type Book struct {
	loadcheck.Book
	mu    sync.Mutex
	ends  map[string]*Ends // by entity
	asked map[loadcheck.Account][]int64
	errs  []error
}

// Ends returns the outcomes so far of the requests of some entities, or of all entities.
func (b *Book) Ends(of ...string) (sum Ends) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for entity, e := range b.ends {
		if len(of) > 0 && !slices.Contains(of, entity) {
			continue
		}
		sum.Granted, sum.Denied = sum.Granted+e.Granted, sum.Denied+e.Denied
		sum.Unavailable, sum.Unknown = sum.Unavailable+e.Unavailable, sum.Unknown+e.Unknown
		sum.Adjusted, sum.RolledBack = sum.Adjusted+e.Adjusted, sum.RolledBack+e.RolledBack
		sum.Lost, sum.Unsettled = sum.Lost+e.Lost, sum.Unsettled+e.Unsettled
	}
	return sum
}

// Asked returns when requests of an account were sent so far, epoch ms.
func (b *Book) Asked(a loadcheck.Account) []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked[a])
}

// Errs returns the unexpected errors so far.
func (b *Book) Errs() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.errs)
}

// ended counts the outcome of a request.
func (b *Book) ended(entity string, count func(*Ends)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ends == nil {
		b.ends, b.asked = map[string]*Ends{}, map[loadcheck.Account][]int64{}
	}
	if b.ends[entity] == nil {
		b.ends[entity] = new(Ends)
	}
	count(b.ends[entity])
}

var errWork = errors.New("the work failed")

// Make makes a call through a limiter and records the outcome. It returns the error of a request
// that was not granted.
func (b *Book) Make(ctx context.Context, lim *limiter.Limiter, c Call) error {
	if c.Rules == nil {
		c.Rules = c.Limits
	}
	sent, granted, settled := now(), int64(0), int64(0)
	err := lim.Do(ctx, c.Request, func(_ context.Context, lease *limiter.Lease) error {
		granted = now()
		b.granted(c, sent, granted)
		time.Sleep(c.Hold)
		defer func() { settled = now() }()
		if c.Fails {
			return errWork
		}
		return lease.Settle(c.Settle)
	})
	if granted == 0 {
		b.refused(ctx, c, sent, err)
		return err
	}
	switch {
	case errors.Is(err, limiter.ErrUnavailable): // Do has released the lease, and nothing was written
		b.ended(c.Entity, func(e *Ends) { e.Unsettled++ })
	case errors.Is(err, limiter.ErrUnknown):
		b.ended(c.Entity, func(e *Ends) { e.Lost++ })
		b.settled(c, settled, false)
	case err == nil || errors.Is(err, errWork):
		b.ended(c.Entity, func(e *Ends) {
			if c.Fails {
				e.RolledBack++
			} else if len(c.Settle) > 0 {
				e.Adjusted++
			}
		})
		b.settled(c, settled, true)
	default:
		b.failed(err)
	}
	return nil
}

func (c Call) account(limit string) loadcheck.Account {
	return loadcheck.Account{Entity: c.Entity, Resource: c.Resource, Limit: limit}
}

// ask records a request for the limits of a call.
func (b *Book) ask(c Call, sent int64, count func(*Ends)) {
	b.ended(c.Entity, count)
	b.mu.Lock()
	defer b.mu.Unlock()
	for limit := range c.Costs {
		b.asked[c.account(limit)] = append(b.asked[c.account(limit)], sent)
	}
}

func (b *Book) granted(c Call, sent, answered int64) {
	b.ask(c, sent, func(e *Ends) { e.Granted++ })
	for _, l := range c.Rules {
		b.Granted(c.account(l.Name), loadcheck.Rule{From: sent, To: answered, Capacity: l.Capacity, Amount: l.Refill,
			Period: l.Period.Milliseconds()}, c.Costs[l.Name])
	}
}

// refused records a call that was not granted. Without an answer, its tokens may still be gone.
func (b *Book) refused(ctx context.Context, c Call, sent int64, err error) {
	switch {
	case errors.Is(err, limiter.ErrLimited):
		b.ask(c, sent, func(e *Ends) { e.Denied++ })
	case errors.Is(err, limiter.ErrUnavailable):
		b.ask(c, sent, func(e *Ends) { e.Unavailable++ })
	case errors.Is(err, limiter.ErrUnknown):
		b.ask(c, sent, func(e *Ends) { e.Unknown++ })
		for limit, n := range c.Costs {
			b.Settled(c.account(limit), sent, now(), n, false)
		}
	case ctx.Err() == nil:
		b.failed(err)
	}
}

// settled records a commit or a rollback sent at an instant; without an answer, it is not certain.
func (b *Book) settled(c Call, sent int64, certain bool) {
	ends := c.Settle
	if c.Fails {
		ends = limiter.Costs{}
		for limit := range c.Costs {
			ends[limit] = 0
		}
	}
	for limit, end := range ends {
		b.Settled(c.account(limit), sent, now(), end-c.Costs[limit], certain)
	}
}

// failed records an unexpected error.
func (b *Book) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
}

// now is the only clock of the clients' observations: epoch milliseconds, like the limiter's.
func now() int64 { return time.Now().UnixMilli() }
