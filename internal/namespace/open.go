package namespace

import (
	"context"
	"errors"
	"fmt"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const openAttempts = 6

var errNotRead = errors.New("the namespace is registered, but is not read")

// Open returns the id of a namespace. If registers is set, it registers a missing one, and reads
// back the registration that won. Temporary failures are retried. The error is an ErrMissing, an
// ErrVersion, or store.ErrSetup, store.ErrUnavailable or store.ErrUnknown.
func Open(ctx context.Context, s store.Store, name string, registers bool,
	clock func() time.Time) (id string, err error) {
	for try := range openAttempts {
		var ns config.Namespace
		if ns, err = Find(ctx, s, name, clock()); err == nil {
			return ns.ID, nil
		}
		if errors.Is(err, ErrMissing) && registers {
			if err = Register(ctx, s, name, clock()); err == nil {
				err = &store.Failure{Kind: store.Unavailable, Op: "BatchGetItem", Err: errNotRead}
				continue
			}
		}
		if errors.Is(err, ErrMissing) && store.KindOf(err) == 0 {
			return "", fmt.Errorf("%w, want a name that is, or Options.Register", err)
		}
		if store.KindOf(err) == 0 {
			return "", err
		}
		if store.KindOf(err) == store.Setup || store.Unreachable(err) || try+1 == openAttempts ||
			smithytime.SleepWithContext(ctx, store.Jitter(try, 10*time.Millisecond, time.Second)) != nil {
			break
		}
	}
	return "", fmt.Errorf("%w: open namespace %q: %w", store.Outcome(err), name, err)
}
