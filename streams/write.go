package streams

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// rounds is how often a write is planned again because its condition did
	// not hold or its answer was lost.
	rounds = 6

	// refillRounds is the same for a refill, which a busy bucket can do without:
	// its clients refill it too.
	refillRounds = 3

	// attempts is how often one write is sent when DynamoDB slows us down or
	// a transaction holds the item; pauses grow from pause and are jittered.
	attempts = 6

	// usageAttempts is the same for usage: to give up and be invoked again costs a
	// throttled table more than to wait, some 4 s.
	usageAttempts = 16
	pause         = 10 * time.Millisecond

	// callTimeout bounds one call, so that a dead connection does not use up
	// the whole invocation.
	callTimeout = 5 * time.Second
)

var errRounds = errors.New("condition still refused after all rounds")

// write performs one update. Nothing was written if it was refused or if the
// error says so; it may have been if the answer was lost.
func (a *Aggregator) write(ctx context.Context, u item.Update, attempts int) (after item.Item, err error) {
	err = store.Retry(ctx, attempts, pause, func() error {
		var err error
		after, err = a.store.Write(ctx, u)
		return err
	})
	return after, err
}

// again decides after a failed write: plan it again from old (which may be
// nil: no item), or give up with err. A write whose answer was lost is planned
// again from the item known before, because every update here is refused if it
// was applied before.
func again(ctx context.Context, err error) (old item.Item, seen bool, giveUp error) {
	if r, ok := errors.AsType[*store.Refused](err); ok {
		return r.Old, true, nil
	}
	if store.KindOf(err) == store.Unknown && ctx.Err() == nil {
		return nil, false, nil
	}
	return nil, false, err
}

// refill refills a shard. When others were faster, the image says whether a
// refill is still called for. A shard that keeps changing is refilled by the clients
// that change it.
func (a *Aggregator) refill(ctx context.Context, r usage.Write) (writes int, err error) {
	for range refillRounds {
		if err := checked(r.Update); err != nil {
			return 0, err
		}
		_, err := a.write(ctx, r.Update, attempts)
		if err == nil {
			return 1, nil
		}
		old, seen, giveUp := again(ctx, err)
		if giveUp != nil {
			return 0, giveUp
		}
		if !seen {
			continue
		}
		image, err := table.DecodeShard(old)
		if err != nil { // gone: the next acquire starts a full one; or its own record is set aside when it comes
			return 0, nil
		}
		due := false
		if r, due = r.Refill(image, a.now()); !due {
			return 0, nil
		}
	}
	return 0, nil
}

// once does a write that is refused if it was done before, or is not needed any more.
func (a *Aggregator) once(ctx context.Context, u item.Update) (writes int, err error) {
	for range rounds {
		if _, err = a.write(ctx, u, attempts); err == nil {
			return 1, nil
		}
		_, seen, giveUp := again(ctx, err)
		if seen || giveUp != nil {
			return 0, giveUp
		}
	}
	return 0, err
}

// reshard carries out the steps of a resharding. Shards that the steps leave alone,
// because others are at work there, catch up when they are seen again.
func (a *Aggregator) reshard(ctx context.Context, r usage.Resharding) (writes int, err error) {
	return shard.Run(ctx, bounded{a.store}, r.Steps, a.now)
}
