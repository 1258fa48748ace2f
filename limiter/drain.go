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

// Drain stops all processes from being granted anything of a bucket for a while: for a provider
// that has refused a request and says when to try again, as LLM APIs do with 429 and Retry-After.
//
//	err := l.Drain(ctx, "openai", "gpt-4", retryAfter)
//
// At the end of wait the bucket is empty, and refills as usual; RetryAfter of denials accounts for
// that. If several processes drain it, in any order, the latest instant counts, once. Usage does
// not count drained tokens. Python clients respect a drain as they respect a debt.
//
// All limits of the bucket that refill and deny are drained, slow ones too: the next token of a
// limit of 1,000 a day is then 86 s away. Quotas, in-flight limits and soft limits stay as they
// are. So do buckets that the entity cascades to, and everything that the request charged
// elsewhere: name the bucket that stands for the provider.
//
// Three things are still granted: tokens that other processes have taken ahead (Options.Ahead),
// calls of Wait and Reserve whose turn has come already, and tokens that leases give back after the
// drain, which count as refilled. So end the lease of the refused request first. Shares of
// PolicyLocal are not drained.
//
// wait is at most a day, and is rounded up to milliseconds; zero or less does nothing, as does the
// drain of a bucket that does not exist. If no limit of the bucket can be drained, the error is
// ErrInvalid. Drain blocks until DynamoDB answers, bounded by ctx and Options.Timeout: it reads all
// shards, and sends one write for each shard that would hold anything. Other errors are
// ErrUnavailable, ErrUnknown, ErrUnreadable, ErrSetup, ErrCanceled and ErrClosed; some shards may
// have been drained then. It may be called again after any of them.
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
