package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Limiter takes tokens from buckets in one namespace of one table. Create it with [Open]; it is
// safe for concurrent use by any number of goroutines. One Limiter per process and namespace is
// enough: its callers share what it has learned. A program that ends calls [Limiter.Close].
type Limiter struct {
	store     *desk.Timed
	opts      Options
	namespace string               // the namespace's id, the prefix of every key
	offset    func() time.Duration // what to add to the clock; nil: nothing
	desks     *desk.Desks
	configs   *inforce.Configs
	locals    *desk.Locals
}

// newLimiter returns a limiter on an opened namespace; opts are complete.
func newLimiter(s store.Store, namespaceID string, opts Options) *Limiter {
	l := &Limiter{opts: opts, namespace: namespaceID}
	l.desks = desk.New(s, desk.Options{
		Settings: decide.Settings{DenyFor: opts.DenyFor.Milliseconds(), Slack: int64(opts.Slack),
			MaxShards: opts.MaxShards},
		Namespace: namespaceID, Timeout: opts.Timeout, SettleWithin: opts.SettleWithin, Size: opts.MaxBuckets,
		Now: l.now,
		Observe: func(ctx context.Context, d desk.Event) {
			if l.opts.Observe == nil {
				return
			}
			if e, ok := eventOf(d); ok {
				l.opts.Observe(ctx, e)
			}
		},
		Notes: inforce.Notes,
	})
	l.store = l.desks.Store
	l.locals = desk.NewLocals(opts.LocalShare, l.desks)
	l.configs = inforce.New(l.desks, opts.ConfigTTL.Milliseconds())
	return l
}

// now returns the clock's time, bounded to what an item can store.
func (l *Limiter) now() int64 {
	now := l.opts.Now()
	if l.offset != nil {
		now = now.Add(l.offset())
	}
	return min(max(now.UnixMilli(), bucket.EdgeMargin), 1<<52)
}

// Close shuts the Limiter down and gives up what it holds, with one write for each shard of which
// it holds anything. Tokens that it has taken ahead (Options.Ahead) go back to quotas; for rates
// they count as never used, and refill. Slots of leases that have ended go back (see [InFlight]),
// and writes that were postponed are sent. End the leases first, for example by shutting the server
// down: a lease that is still open keeps its tokens, loses its slots (see [Lease.Lost]), and those
// slots are free after two epochs at most.
//
// From then on every call is ErrClosed. Close waits for calls that are under way; those that sleep
// in Wait give their tokens back and are ErrClosed. It blocks until everything is written, or until
// ctx ends. The error joins a *SettleError for each bucket of which something may not have been
// given back, or names the calls that did not end. Whatever is left is lost as in a crash: see
// Options.Ahead. A second call does nothing and returns nil.
//
// Without Close a process loses the tokens that it has taken ahead, and its slots are free after
// two epochs.
func (l *Limiter) Close(ctx context.Context) error {
	var errs []error
	for _, t := range l.desks.Close(ctx) {
		if t.Name == (decide.Name{}) {
			return fmt.Errorf("%w: close: calls are under way: %w", ErrCanceled, errors.Join(t.Errs...))
		}
		errs = append(errs, settleError(t.Op, t.Name, t.Errs))
	}
	return errors.Join(errs...)
}

// NamespaceID returns the id that prefixes the keys of this limiter's namespace.
func (l *Limiter) NamespaceID() string { return l.namespace }

// ForgetConfig drops all cached configuration, so that the next call reads it again. Call it after
// a configuration change that must take effect in this process at once.
func (l *Limiter) ForgetConfig() { l.configs.Forget() }

// Open returns a limiter on a namespace of a table. The namespace must exist, unless
// Options.Register is set, and the table must be one that this package can share with other
// clients. If a Python client has put the release of its aggregator into the version record, Open
// removes it, so that no Python client replaces the table's function. Open sends one write whose
// condition never holds, to find a missing permission now. It blocks for one read and that write,
// or a few calls more when it registers, bounded by ctx and Options.Timeout. The error is
// ErrInvalid, ErrNamespace, ErrVersion, ErrSetup, ErrUnavailable or ErrUnknown.
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

// where says where the table was looked for. A client of another region, or of AWS instead of an
// emulator, finds no table, or somebody else's.
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
		clock.Watch(func(c store.ClockChange) {
			info := ClockInfo{c.Before, c.After, c.Reported, c.Set}
			o.Observe(context.Background(), Event{Kind: EventClock, Clock: info})
		})
	}
	id, err := namespace.Open(ctx, s, o.Namespace, o.Register, o.Now)
	if err != nil {
		return nil, err
	}
	l := newLimiter(s, id, o)
	if corrected {
		l.offset = clock.Offset
	}
	l.configs.Found(l.now())
	_, err = l.store.Write(ctx, desk.InVain(layout.BucketKey(id, "-", "-", 0)))
	if store.KindOf(err) == store.Setup { // a table that does not answer is no setup error
		return nil, fmt.Errorf("%w: open: %w", ErrSetup, err)
	}
	return l, nil
}

// clock is a store that knows how far the system's clock is off the table's.
type clock interface {
	Offset() time.Duration
	Watch(func(store.ClockChange))
}

// begin returns when a call began, for the observer.
func (l *Limiter) begin() (at time.Time) {
	if l.opts.Observe != nil {
		at = time.Now()
	}
	return at
}
