package streams

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

const (
	// rounds is how often a write is planned again after its condition failed or its answer was
	// lost.
	rounds = 6

	// refillRounds is the same for a refill, which is less important on a busy bucket, because its
	// clients refill it too.
	refillRounds = 3

	// attempts is how often one write is sent if DynamoDB slows us down or a transaction holds the
	// item; the pauses grow from pause, with jitter.
	attempts = 6

	// usageAttempts is the same for usage: on a throttled table, giving up and being invoked again
	// costs more than waiting some 4 s.
	usageAttempts = 16
	pause         = 10 * time.Millisecond

	// callTimeout bounds one call, so a dead connection cannot use up the whole invocation.
	callTimeout = 5 * time.Second
)

var errRounds = errors.New("condition still refused after all rounds")

// errNever means that DynamoDB will always refuse to store some usage of a bucket: another client's
// limits have no room in one expression or one snapshot, or a snapshot has a text in place of a count.
var errNever = errors.New("can never be stored")

// fails reports whether a failure may be gone with the next attempt.
func fails(err error) bool { return err != nil && !errors.Is(err, errNever) }

// worse joins two failures. One that may be gone with the next attempt stands alone.
func worse(before, err error) error {
	if fails(err) {
		return err
	}
	return errors.Join(before, err)
}

// write performs one update. If it was refused, or the error guarantees it, nothing was written; if
// the answer was lost, it may have been.
func (a *Aggregator) write(ctx context.Context, u item.Update, attempts int) (after item.Item, err error) {
	err = store.Retry(ctx, attempts, pause, func() error {
		var err error
		after, err = a.store.Write(ctx, u)
		return err
	})
	return after, err
}

// writeUsage is write for usage. If DynamoDB rejects the write as such, and would again, the error is
// an errNever.
func (a *Aggregator) writeUsage(ctx context.Context, u item.Update, attempts int) (after item.Item, err error) {
	after, err = a.write(ctx, u, attempts)
	if store.KindOf(err) != store.Setup {
		return after, err
	}
	stored, unread := a.readAll(ctx, true, []item.Key{u.Key})
	if unread != nil {
		return nil, err
	}
	would, held, invalid := u.Apply(stored[u.Key])
	if held {
		invalid = item.ValidateItem(would)
	}
	if invalid != nil {
		err = errors.Join(errNever, err)
	}
	return nil, err
}

// again decides after a failed write whether to plan it again from old (nil: no item), or to give
// up with err. A write whose answer was lost is planned again from the previous item, because every
// update here is refused if it was already applied.
func again(ctx context.Context, err error) (old item.Item, seen bool, giveUp error) {
	if r, ok := errors.AsType[*store.Refused](err); ok {
		return r.Old, true, nil
	}
	if store.KindOf(err) == store.Unknown && ctx.Err() == nil {
		return nil, false, nil
	}
	return nil, false, err
}

// refill refills a shard. If others were faster, the image decides whether a refill is still
// needed. A shard that keeps changing is refilled by the clients that change it.
func (a *Aggregator) refill(ctx context.Context, r usage.Write) (writes int, err error) {
	for range refillRounds {
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
		if err != nil { // gone: the next acquire creates a full one; or its own record is set aside when it arrives
			return 0, nil
		}
		due := false
		if r, due = r.Refill(image, a.now()); !due {
			return 0, nil
		}
	}
	return 0, nil
}

// once performs a write that is refused if it was done before, or is not needed any more.
func (a *Aggregator) once(ctx context.Context, u item.Update, attempts int) (writes int, err error) {
	for range rounds {
		if _, err = a.writeUsage(ctx, u, attempts); err == nil {
			return 1, nil
		}
		_, seen, giveUp := again(ctx, err)
		if seen || giveUp != nil {
			return 0, giveUp
		}
	}
	return 0, err
}
