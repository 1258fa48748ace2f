package limiter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Every error of this package is, by errors.Is, one of these.
var (
	// ErrLimited: denied, nothing was taken. The error is a *LimitError.
	ErrLimited = errors.New("limiter: limit exceeded")
	// ErrUnavailable: no decision, nothing was written. The call was throttled to the
	// end, found no connection, or was not sent because several before it had no answer.
	ErrUnavailable = store.ErrUnavailable
	// ErrSetup: DynamoDB rejects the calls of this limiter: no such table, no
	// permission, or no valid request can be made. Nothing was written. No policy turns it
	// into a lease: somebody has to act. Open finds most of it.
	ErrSetup = store.ErrSetup
	// ErrCanceled: the caller's context ended before there was a decision; errors.Is
	// also finds the context's error. No policy turns it into a lease. It is ErrUnknown
	// too if tokens may have been taken, else ErrUnavailable. A write that had gone out goes
	// on, bounded by Options.Timeout, and what it takes is given back.
	ErrCanceled = errors.New("limiter: canceled by the caller")
	// ErrUnknown: no answer, the write may have been applied (timeout after
	// sending, server error). Treat as taken; do not retry blindly.
	ErrUnknown = store.ErrUnknown
	// ErrInvalid: an argument or a stored configuration is not acceptable; the
	// message names the field, the value and the accepted values. Nothing was
	// written.
	ErrInvalid = validate.ErrInvalid
	// ErrUnreadable: the stored bucket cannot be read, because of what another client or
	// a hand has written. The message names the item, the attribute and its value.
	// Nothing was taken. No policy turns it into a lease. Other buckets are not
	// concerned. [admin.Namespace.Reset] makes the bucket anew.
	//
	// [admin.Namespace.Reset]: https://pkg.go.dev/github.com/zeroae/zae-limiter-go/admin#Namespace.Reset
	ErrUnreadable = table.ErrUnreadable
	// ErrTooLarge: the request can never be granted as it is: a cost exceeds
	// the capacity of its limit.
	ErrTooLarge = errors.New("limiter: request too large")
	// ErrDisabled: the resource is switched off for the entity, in the stored configuration.
	// Nothing was taken, and trying again does not help. It stops requests that bring their
	// own limits too, and those that a policy would let pass, once this process has read it.
	ErrDisabled = inforce.ErrDisabled
	// ErrBypassed is no failure but the [Lease.Cause] of a lease that has charged nothing,
	// because the stored configuration grants the entity everything there.
	ErrBypassed = errors.New("limiter: bypassed")
	// ErrNoLimits: neither the call nor any level of the stored configuration
	// has limits for the entity and resource.
	ErrNoLimits = inforce.ErrNoLimits
	// ErrQueueFull: a *LimitError of [Limiter.Reserve]: more than the capacity of a limit is
	// owed, by requests that wait or by work that has cost more than it took. RetryAfter says
	// when there is room again. Nothing was taken. What requests that wait owe is bounded because
	// it stays if all of them die: at worst twice the capacity must then be refilled before
	// anybody is granted anything. [Limiter.Wait] waits for room instead.
	ErrQueueFull = errors.New("limiter: queue full")
	// ErrLeaseClosed: the lease has been committed or rolled back.
	ErrLeaseClosed = errors.New("limiter: lease closed")
	// ErrClosed: the Limiter was closed (see [Limiter.Close]). Nothing was written, so it is
	// ErrUnavailable too. No policy turns it into a lease.
	ErrClosed = errors.New("limiter: closed")
)

// LimitError is a denial. No place is kept: after the wait, others may have taken the
// tokens. A large request among small ones may lose every time; [Limiter.Wait] gets its
// turn. Nothing was taken, unless the error is ErrUnknown or a *SettleError too: then another
// entity of a cascade may have been charged and not given back.
type LimitError struct {
	// Entity is whose limit denied: in a cascade it may be a parent.
	Entity, Resource string
	// Limit is the limit that takes longest to recover.
	Limit string
	// Wanted and Remaining are in tokens and about Limit.
	Wanted, Remaining int64
	// RetryAfter is exact to the millisecond, unless Estimated: if nobody else takes or
	// gives back, the same request is granted after it, and denied a millisecond earlier.
	// It is 292 years at most, all that a Duration holds, and ten years of a blocked limit. Neither is
	// a wait that helps: see Never.
	RetryAfter time.Duration
	// Estimated: RetryAfter may be wrong. This process has not seen all shards of the bucket, or
	// shards have to merge first. Or others were faster, and it is how long the costs take to
	// refill.
	Estimated bool
	// Statuses has one entry for each limit in force of Entity, in order of name, about
	// the whole bucket.
	Statuses []Status

	full bool // the queue of waiting requests is full
}

func (e *LimitError) Error() string {
	what := ""
	if e.full {
		what = "queue full: "
	}
	retry := "retry after " + e.RetryAfter.String()
	if e.RetryAfter >= longestWait {
		retry = "not within 292 years"
	} else if e.Never() {
		retry = "never granted"
	}
	quota := slices.ContainsFunc(e.Statuses, func(s Status) bool {
		return s.Limit == e.Limit && s.Refill == 0 && !s.InFlight
	})
	return fmt.Sprintf("limiter: acquire %q: limit %s: %s%s wanted, %s left, %s", path(e.name()), e.Limit,
		what, validate.Amount(e.Limit, quota, e.Wanted), validate.Amount(e.Limit, quota, e.Remaining), retry)
}

func (e *LimitError) name() decide.Name { return decide.Name{Entity: e.Entity, Resource: e.Resource} }

// Never reports whether no wait helps: a limit is blocked, or its debt outlasts what a Duration holds.
// Say so then, and not RetryAfter.
func (e *LimitError) Never() bool {
	return e.RetryAfter >= longestWait || slices.ContainsFunc(e.Statuses, func(s Status) bool { return s.RetryAfter < 0 })
}

// Is reports that every LimitError is ErrLimited, and some are ErrQueueFull.
func (e *LimitError) Is(target error) bool {
	return target == ErrLimited || target == ErrQueueFull && e.full
}

// opError is an error of one operation on one entity and resource.
type opError struct {
	op    string
	name  decide.Name
	kind  error // the sentinel
	cause error // may be nil
}

func (e *opError) Error() string {
	s := fmt.Sprintf("%v: %s %q", e.kind, e.op, path(e.name))
	if e.cause != nil {
		s += ": " + strings.TrimPrefix(e.cause.Error(), e.kind.Error()+": ") // the kind is said once
	}
	return s
}

func (e *opError) Is(target error) bool { return target == e.kind }
func (e *opError) Unwrap() error        { return e.cause }

// path is how messages name a bucket.
func path(n decide.Name) string { return n.Entity + "/" + n.Resource }

// outcome is the error of a failed call as the caller gets it.
func outcome(op string, n decide.Name, err error) error {
	kind := store.Outcome(err)
	if store.KindOf(err) == 0 {
		for _, is := range append(never[:], ErrUnreadable) {
			if errors.Is(err, is) {
				kind = is
				break
			}
		}
	}
	return &opError{op, n, kind, err}
}

// settleError is the error of a lease that could not be settled. Each item is
// classified by itself: one may have been written, and another not.
func settleError(op string, n decide.Name, errs []error) error {
	all := make([]error, len(errs))
	for i, err := range errs {
		all[i] = outcome(op, n, err)
	}
	return &SettleError{op, n.Entity, n.Resource, errors.Join(all...)}
}

// canceled is the outcome of a call that the caller's context has ended. It says,
// as outcome does, whether anything may have been taken.
func canceled(op string, n decide.Name, cause, err error) error {
	known := ErrUnavailable
	if store.KindOf(err) == store.Unknown {
		known = ErrUnknown
	}
	return &opError{op, n, ErrCanceled, fmt.Errorf("%w: %w", known, cause)}
}

// closed is the error of a call of a Limiter that was closed.
func closed(op string, n decide.Name) error { return &opError{op, n, ErrUnavailable, ErrClosed} }

// never are the errors of requests that the configuration never grants as they are.
var never = [...]error{ErrNoLimits, ErrInvalid, ErrTooLarge, ErrNamespace, ErrDisabled}

// decided reports whether a request was granted, was denied or can never be granted, whatever else happened.
func decided(err error) bool {
	return err == nil || errors.Is(err, ErrLimited) ||
		slices.ContainsFunc(never[:], func(kind error) bool { return errors.Is(err, kind) })
}

// Errors of the table rather than of a call. No policy turns them into a lease:
// asking again does not help, somebody has to act.
var (
	// ErrNamespace: the namespace is not registered, or was deleted. A running
	// Limiter notices that within Options.ConfigTTL and takes nothing any more.
	ErrNamespace = namespace.ErrMissing
	// ErrVersion: the table's version record excludes this package: its schema
	// has another major version, or it demands newer clients. Or the record of
	// the namespace cannot be read.
	ErrVersion = namespace.ErrVersion
)

// SettleError is a lease that could not be committed or rolled back. It is no failed acquire: the
// request had been granted. It wraps what happened. ErrUnavailable: nothing was written on the
// items that answered so, though it was sent several times within a fraction of a second. The
// lease may be committed or rolled back again. ErrUnknown: it may have been written. It was not
// sent again, and the lease is closed.
type SettleError struct {
	Op               string // "commit" or "rollback"
	Entity, Resource string
	Err              error
}

func (e *SettleError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SettleError) Unwrap() error { return e.Err }

// refusal is the error of a decision that grants nothing.
func refusal(d decide.Decision) error {
	if d.Do == decide.Never {
		return tooLarge(d)
	}
	return limitError(d.Want, d.Denial)
}

// limitError is a denial as the caller gets it.
func limitError(w decide.Want, d decide.Denial) *LimitError {
	e := &LimitError{
		Entity: w.Name.Entity, Resource: w.Name.Resource, Limit: d.Limit, RetryAfter: wait(0, d.After),
		Estimated: d.Estimated, full: d.Full, Statuses: statuses(w.Name, d.Levels),
	}
	for i, c := range w.Costs {
		own := int64(0) // slots that the request has without asking for them
		if w.Reused != nil {
			own = w.Reused[i] / bucket.Milli
		}
		e.Statuses[i].Remaining += own
		if c.Limit.Name == d.Limit {
			e.Wanted, e.Remaining = c.Milli/bucket.Milli+own, e.Statuses[i].Remaining
		}
	}
	return e
}

// tooLarge explains a request that no shard can ever hold.
func tooLarge(d decide.Decision) error {
	cost, _ := table.Find(d.Want.Costs, d.Limit)
	share := bucket.Share(cost.Largest().Limit.Capacity, 0, d.Count) // no shard has more
	cause := fmt.Errorf("cost of %q is %d, want at most the %s tokens that one of %d shards holds",
		d.Limit, cost.Milli/bucket.Milli, bucket.Tokens(share), d.Count)
	return &opError{"acquire", d.Want.Name, ErrTooLarge, cause}
}
