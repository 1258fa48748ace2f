package desk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// tripsKept is how many round trips are remembered. Odd, so that one is in the middle.
const tripsKept = 15

// Timed is a store that measures how long its writes take, and reports throttled calls. It is safe
// for concurrent use.
type Timed struct {
	store.Store
	observe func(context.Context, Event)
	mu      sync.Mutex
	trips   [tripsKept]time.Duration // durations of the last answered writes, a ring
	n       int                      // writes that were answered
	pace    pace
}

// pace is how long a write typically takes, and after how long it is late. If that is not known,
// both are zero.
type pace struct{ trip, late time.Duration }

// Write implements [store.Store].
func (c *Timed) Write(ctx context.Context, w item.Write) (item.Item, error) {
	sent := time.Now()
	it, err := c.Store.Write(ctx, w)
	if _, refused := errors.AsType[*store.Refused](err); err == nil || refused {
		c.Took(time.Since(sent))
	}
	c.report(ctx, w.Target(), err)
	return it, err
}

// Transact implements [store.Store].
func (c *Timed) Transact(ctx context.Context, token string, writes []item.Write) error {
	err := c.Store.Transact(ctx, token, writes)
	c.report(ctx, writes[0].Target(), err)
	return err
}

// Read implements [store.Store].
func (c *Timed) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	items, err := c.Store.Read(ctx, consistent, keys...)
	if len(keys) > 0 {
		c.report(ctx, keys[0], err)
	}
	return items, err
}

// report reports a call that was throttled.
func (c *Timed) report(ctx context.Context, key item.Key, err error) {
	if store.KindOf(err) == store.Throttled {
		_, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		c.observe(ctx, Event{Kind: Throttled, Name: decide.Name{Entity: entity, Resource: resource}, Err: err})
	}
}

// Took remembers how long an answered write took, whether it held or was refused.
//
// The typical duration is the median. It moves only when half of the last writes were slow. A write
// is late after half as much again as four of five took. So three slow ones of fifteen change
// nothing, and four are enough to show that the table has become slow.
//
// Example: 4, 5, 4, 900 and 5 ms are typically 5 ms, and as the fourth of them is 5, a write is
// late after 7.5 ms.
func (c *Timed) Took(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips[c.n%tripsKept] = d
	c.n++
	sorted := c.trips
	known := sorted[:min(c.n, tripsKept)]
	slices.Sort(known)
	c.pace = pace{known[len(known)/2], known[(len(known)*4-1)/5] * 3 / 2}
}

// lately returns the pace of the last writes.
func (c *Timed) lately() pace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pace
}
