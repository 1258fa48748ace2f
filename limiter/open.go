package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

const openAttempts = 6

// Open returns a limiter on a namespace of a table. The namespace must exist,
// unless Options.Register is set, and the table must be one this package can
// share with other clients. If a Python client has put the release of its
// aggregator into the version record, Open takes it out, so that no Python client
// replaces the table's function. It sends one write whose condition never holds, so
// that a missing permission is found now. It blocks for one read and that write, or
// a few calls more when it registers, bounded by ctx and Options.Timeout. The error
// is ErrInvalid, ErrNamespace, ErrVersion, ErrSetup, ErrUnavailable or ErrUnknown.
func Open(ctx context.Context, db DynamoDB, tableName string, opts *Options) (*Limiter, error) {
	if err := validate.Table(db != nil, tableName); err != nil {
		return nil, err
	}
	if twin, ok := db.(store.Store); ok {
		return open(ctx, twin, opts) // a table in memory, as tests have it
	}
	l, err := open(ctx, store.NewDynamo(db, tableName), opts)
	if err != nil && !errors.Is(err, ErrInvalid) {
		return nil, fmt.Errorf("%w (%s)", err, where(db, tableName))
	}
	return l, err
}

// where says where the table was looked for: a client of another region, or of AWS
// instead of an emulator, finds no table, or somebody else's.
func where(db DynamoDB, tableName string) string {
	s := fmt.Sprintf("table %q", tableName)
	client, ok := db.(interface{ Options() dynamodb.Options })
	if !ok {
		return s
	}
	o := client.Options()
	if o.Region != "" {
		s += " in " + o.Region
	}
	if o.BaseEndpoint != nil {
		s += " at " + *o.BaseEndpoint
	}
	return s
}

func open(ctx context.Context, s store.Store, opts *Options) (*Limiter, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	clock, ok := s.(clock)
	corrected := ok && (opts == nil || opts.Now == nil)
	if corrected && o.Observe != nil { // from the first answer on
		clock.Watch(o.observeClock())
	}
	id, err := namespaceID(ctx, s, o)
	if err != nil {
		return nil, err
	}
	l := newLimiter(s, id, o)
	if corrected {
		l.offset = clock.Offset
	}
	l.configs.namespaceFound(l.now())
	if err := mayWrite(ctx, l.store, id); err != nil {
		return nil, err
	}
	return l, nil
}

// mayWrite finds out whether the table can be written to, by an update whose
// condition never holds: it stores nothing and costs one write unit. A table that
// does not answer is no matter of setup.
func mayWrite(ctx context.Context, s store.Store, namespaceID string) error {
	_, err := s.Write(ctx, desk.InVain(layout.BucketKey(namespaceID, "-", "-", 0)))
	if store.KindOf(err) == store.Setup {
		return fmt.Errorf("%w: open: %w", ErrSetup, err)
	}
	return nil
}

// clock is a store that knows how far the system's clock is off the table's.
type clock interface {
	Offset() time.Duration
	Watch(func(store.ClockChange))
}

var errNotRead = errors.New("the namespace is registered, but is not read")

// namespaceID resolves the namespace, or registers it.
func namespaceID(ctx context.Context, s store.Store, o Options) (string, error) {
	var err error
	for try := range openAttempts {
		var ns config.Namespace
		if ns, err = namespace.Find(ctx, s, o.Namespace, o.Now()); err == nil {
			return ns.ID, nil
		}
		if errors.Is(err, ErrNamespace) && o.Register {
			if err = namespace.Register(ctx, s, o.Namespace, o.Now()); err == nil {
				err = &store.Failure{Kind: store.Unavailable, Op: "BatchGetItem", Err: errNotRead}
				continue // read back what won
			}
		}
		if errors.Is(err, ErrNamespace) && store.KindOf(err) == 0 {
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
	return "", fmt.Errorf("%w: open namespace %q: %w", store.Outcome(err), o.Namespace, err)
}

// observeClock returns a function that reports changes of the clock's correction.
func (o *Options) observeClock() func(store.ClockChange) {
	return func(c store.ClockChange) {
		o.Observe(context.Background(), Event{Kind: EventClock, Clock: ClockInfo{c.Before, c.After, c.Reported, c.Set}})
	}
}
