package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// meter counts the write units that one invocation takes from the table. A write takes the units of
// the stored item, at least one, without indexes. A refused write takes one. A transaction takes
// twice as many as its writes. Each call ends after callTimeout, not counting the time in which a
// write waits for its units. It is safe for concurrent use.
type meter struct {
	store.Lister
	pace  *pace // nil: unlimited
	units atomic.Int64
}

// metered returns the aggregator for one invocation, and the counter of its write units.
func (a *Aggregator) metered() (*Aggregator, *meter) {
	m := &meter{Lister: a.store, pace: a.pace}
	b := *a
	b.store = m
	return &b, m
}

// Write implements [store.Store].
func (m *meter) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if err := m.pace.wait(ctx, 1); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	after, err := m.Lister.Write(ctx, w)
	put, isPut := w.(item.Put)
	if isPut {
		after = put.Item
	}
	if !store.Passes(err) { // a throttled write takes nothing
		m.took(max(1, int64(item.Size(after)+1023)/1024), 1)
	}
	return after, err
}

// Transact implements [store.Store].
func (m *meter) Transact(ctx context.Context, token string, writes []item.Write) error {
	n := 2 * int64(len(writes))
	if err := m.pace.wait(ctx, n); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := m.Lister.Transact(ctx, token, writes)
	if !store.Passes(err) {
		m.took(n, n)
	}
	return err
}

// Read implements [store.Store].
func (m *meter) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.Lister.Read(ctx, consistent, keys...)
}

// List implements [store.Lister].
func (m *meter) List(ctx context.Context, q item.Query) (item.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.Lister.List(ctx, q)
}

// took records the units of a write, and how many of them it has waited for.
func (m *meter) took(units, waited int64) {
	m.units.Add(units)
	m.pace.add(units - waited)
}

// pace allows a number of write units per second. It is safe for concurrent use.
type pace struct {
	each time.Duration // between two units

	mu   sync.Mutex
	next time.Time // when the next unit may be taken
}

// wait waits for units. An error means that ctx ends before that, and nothing was sent. Units that
// would come too late are left to other writes.
func (p *pace) wait(ctx context.Context, units int64) error {
	if p == nil {
		return nil
	}
	now := time.Now()
	p.mu.Lock()
	at := p.next
	if at.Before(now) {
		at = now
	}
	if end, bound := ctx.Deadline(); bound && at.After(end) {
		p.mu.Unlock()
		return &store.Failure{Kind: store.Unavailable, Op: "pace", Err: context.DeadlineExceeded}
	}
	p.next = at.Add(time.Duration(units) * p.each)
	p.mu.Unlock()
	if err := smithytime.SleepWithContext(ctx, at.Sub(now)); err != nil {
		return &store.Failure{Kind: store.Unavailable, Op: "pace", Err: err}
	}
	return nil
}

// add takes units that turned out to be needed: later writes wait for them.
func (p *pace) add(units int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.next = p.next.Add(time.Duration(units) * p.each)
	p.mu.Unlock()
}
