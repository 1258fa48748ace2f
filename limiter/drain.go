package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// maxDrain bounds for how long a bucket is drained.
const maxDrain = 24 * time.Hour

// Drain lets nobody be granted anything of a bucket for a while, in all processes: for a provider that has refused
// a request and says when to try again, as LLM APIs do by 429 and Retry-After.
//
//	err := l.Drain(ctx, "openai", "gpt-4", retryAfter)
//
// When wait is over the bucket holds nothing, and refills as ever; RetryAfter of denials says so. However many
// processes drain it, in any order, the latest instant counts, once. Usage counts nothing of it. Python clients
// obey it as they obey a debt.
//
// All limits of the bucket that refill and deny are drained, slow ones too: one of 1,000 a day then has its next
// token 86 s later. Quotas, in-flight and soft limits stay as they are. So do buckets that the entity cascades to,
// and what the request charged elsewhere: name the bucket that stands for the provider.
//
// Granted all the same are what other processes hold that they took ahead (Options.Ahead), Wait and Reserve that
// have their turn already, and what leases give back after the drain, which counts as refilled. So end the lease
// of the refused request first. Shares of PolicyLocal are not drained.
//
// wait is at most a day, and is rounded up to milliseconds; zero or less does nothing. So does a bucket that does
// not exist. If nothing of the bucket can be drained, the error is ErrInvalid. Drain blocks until DynamoDB
// answers, bounded by ctx and Options.Timeout: it reads all shards, and sends one write for each that would hold
// anything. Other errors are ErrUnavailable, ErrUnknown, ErrUnreadable, ErrSetup, ErrCanceled and ErrClosed; some
// shards may be drained then. It may be called again after any of them.
func (l *Limiter) Drain(ctx context.Context, entity, resource string, wait time.Duration) error {
	if err := errors.Join(validate.Entity("entity", entity), validate.Resource("resource", resource)); err != nil {
		return err
	}
	if wait > maxDrain {
		return validate.Invalid("wait", wait, "at most 24h")
	}
	n := decide.Name{Entity: entity, Resource: resource}
	if !l.desks.Enter() {
		return closed("drain", n)
	}
	defer l.desks.Leave()
	if wait <= 0 {
		return nil
	}
	until := l.now() + (wait + time.Millisecond - 1).Milliseconds()
	err := l.desks.Drain(ctx, n, until)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, desk.ErrUndrainable):
		return validate.Invalid("bucket", path(n), "one with a limit that refills and is not soft")
	case ctx.Err() != nil && store.KindOf(err) != 0:
		return canceled("drain", n, context.Cause(ctx), err)
	}
	return outcome("drain", n, err)
}
