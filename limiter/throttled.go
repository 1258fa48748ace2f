package limiter

import (
	"context"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// DynamoDB slows us down where a table or a partition is written to more than it may be.
// That passes within fractions of a second, or it lasts; then trying on makes it worse.

const (
	// throttleRetries is how often a write is sent again for an acquire because it was
	// throttled.
	throttleRetries = 3
	// throttlePause is the longest pause before the first of them; it doubles.
	throttlePause = 25 * time.Millisecond
	// contentionPause is the base of the jittered pause after a transaction held the item.
	contentionPause = 2 * time.Millisecond
)

// pause waits until the write of a call that was throttled, or met a transaction, may be sent again. It
// reports whether it may: not after other errors, not for ever, and not when ctx has ended.
func pause(ctx context.Context, err error, c *decide.Call) bool {
	var d time.Duration
	switch store.KindOf(err) {
	case store.Conflict:
		d = store.Jitter(c.Sent, 5*contentionPause, 100*contentionPause)
	case store.Throttled:
		if c.Throttled++; c.Throttled > throttleRetries {
			return false
		}
		d = store.Jitter(c.Throttled-1, throttlePause, 4*throttlePause)
	default:
		return false
	}
	return smithytime.SleepWithContext(ctx, d) == nil
}

// watched is a store that tells the observer of throttled calls.
type watched struct {
	store.Store
	observe func(context.Context, Event)
}

func (w watched) tell(ctx context.Context, key item.Key, err error) {
	if store.KindOf(err) == store.Throttled {
		_, entity, resource, _, _ := layout.ParseBucketPK(key.PK)
		w.observe(ctx, Event{Kind: EventThrottled, Entity: entity, Resource: resource, Err: err})
	}
}

// Write implements [store.Store].
func (w watched) Write(ctx context.Context, write item.Write) (item.Item, error) {
	it, err := w.Store.Write(ctx, write)
	w.tell(ctx, write.Target(), err)
	return it, err
}

// Transact implements [store.Store].
func (w watched) Transact(ctx context.Context, token string, writes []item.Write) error {
	err := w.Store.Transact(ctx, token, writes)
	w.tell(ctx, writes[0].Target(), err)
	return err
}

// Read implements [store.Store].
func (w watched) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	items, err := w.Store.Read(ctx, consistent, keys...)
	if len(keys) > 0 {
		w.tell(ctx, keys[0], err)
	}
	return items, err
}
