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

// Every error of this package matches one of these by errors.Is.
var (
	// ErrLimited: denied, nothing was taken. The error is a *LimitError.
	ErrLimited = errors.New("limiter: limit exceeded")
	// ErrUnavailable: no decision, nothing was written. The call was throttled each time it was
	// sent, found no connection, or was not sent because several calls before it had no answer.
	ErrUnavailable = store.ErrUnavailable
	// ErrSetup: DynamoDB rejects the calls of this limiter: there is no such table, a permission is
	// missing, or no valid request can be made. Nothing was written. No policy turns it into a
	// lease: somebody has to fix it. Open finds most such errors.
	ErrSetup = store.ErrSetup
	// ErrCanceled: the caller's context ended before there was a decision; errors.Is also finds the
	// context's error. No policy turns it into a lease. It is also ErrUnknown if tokens may have
	// been taken, otherwise ErrUnavailable. A write that was already sent goes on, bounded by
	// Options.Timeout, and the tokens that it takes are given back.
	ErrCanceled = errors.New("limiter: canceled by the caller")
	// ErrUnknown: no answer, the write may have been applied (timeout after sending, server error).
	// Assume that the tokens are taken; do not retry blindly.
	ErrUnknown = store.ErrUnknown
	// ErrInvalid: an argument or a stored configuration is not acceptable; the message names the
	// field, the value and the accepted values. Nothing was written.
	ErrInvalid = validate.ErrInvalid
	// ErrUnreadable: the stored bucket cannot be read, because of something that another client or
	// a person has written. The message names the item, the attribute and its value. Nothing was
	// taken. No policy turns it into a lease. Other buckets are not affected.
	// [admin.Namespace.Reset] recreates the bucket.
	//
	// [admin.Namespace.Reset]: https://pkg.go.dev/github.com/zeroae/zae-limiter-go/admin#Namespace.Reset
	ErrUnreadable = table.ErrUnreadable
	// ErrTooLarge: the request can never be granted as it is: a cost exceeds the capacity of its
	// limit.
	ErrTooLarge = errors.New("limiter: request too large")
	// ErrDisabled: the stored configuration has switched the resource off for the entity. Nothing
	// was taken, and trying again does not help. Once this process has read it, it also stops
	// requests with limits of their own, and those that a policy would let pass.
	ErrDisabled = inforce.ErrDisabled
	// ErrBypassed is not a failure. It is the [Lease.Cause] of a lease that has charged nothing
	// because the stored configuration grants the entity everything there.
	ErrBypassed = errors.New("limiter: bypassed")
	// ErrNoLimits: neither the call nor any level of the stored configuration
	// has limits for the entity and resource.
	ErrNoLimits = inforce.ErrNoLimits
	// ErrQueueFull is a *LimitError of [Limiter.Reserve]: waiting requests, or work that has cost
	// more than it took, owe more than the capacity of a limit. RetryAfter says when there is room
	// again. Nothing was taken. The debt of waiting requests is bounded because it remains if all
	// of them die: at worst, twice the capacity must then be refilled before anything is granted.
	// [Limiter.Wait] waits for room instead.
	ErrQueueFull = errors.New("limiter: queue full")
	// ErrLeaseClosed: the lease has been committed or rolled back.
	ErrLeaseClosed = errors.New("limiter: lease closed")
	// ErrClosed: the Limiter was closed (see [Limiter.Close]). Nothing was written, so it is
	// ErrUnavailable too. No policy turns it into a lease.
	ErrClosed = errors.New("limiter: closed")
)

// LimitError is a denial. It does not keep a place: after the wait, others may have taken the
// tokens. A large request among small ones may lose every time; [Limiter.Wait] gets its turn.
// Nothing was taken, unless the error is also ErrUnknown or a *SettleError: then another entity of
// a cascade may have been charged and not given back.
type LimitError struct {
	// Entity is the one whose limit denied: in a cascade it may be a parent.
	Entity, Resource string
	// Limit is the limit that takes longest to recover.
	Limit string
	// Wanted and Remaining are tokens of Limit.
	Wanted, Remaining int64
	// RetryAfter is exact to the millisecond, unless Estimated: if nobody else takes or gives back,
	// the same request is granted after it, and denied a millisecond earlier. It is at most 292
	// years, the longest Duration, and ten years for a blocked limit. Waiting for either is
	// pointless: see Never.
	RetryAfter time.Duration
	// Estimated: RetryAfter may be wrong. This process has not seen all shards of the bucket, or
	// shards have to merge first. Or others took the tokens first, and it is the time that the
	// costs take to refill. Or one level of a cascade denies, and the longest wait is another
	// level's by an image that is older than Options.DenyFor. Or a schedule changes the limit
	// earlier, and with it what the class of the request leaves to others.
	Estimated bool
	// Statuses has one entry for each limit in force of Entity, sorted by name, about the whole
	// bucket.
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

// Never reports whether waiting is pointless: a limit is blocked, or its debt outlasts the longest
// Duration. Show that to your clients instead of RetryAfter.
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

// decided reports whether a request was granted, was denied or can never be granted, whatever else
// happened.
func decided(err error) bool {
	return err == nil || errors.Is(err, ErrLimited) ||
		slices.ContainsFunc(never[:], func(kind error) bool { return errors.Is(err, kind) })
}

// Errors of the table rather than of a call. No policy turns them into a lease: trying again does
// not help, somebody has to fix it.
var (
	// ErrNamespace: the namespace is not registered, or was deleted. A running Limiter notices a
	// deletion within Options.ConfigTTL and then takes nothing any more.
	ErrNamespace = namespace.ErrMissing
	// ErrVersion: the table's version record excludes this package: its schema has another major
	// version, or it demands newer clients. Or the namespace's record cannot be read.
	ErrVersion = namespace.ErrVersion
)

// SettleError is a lease that could not be committed or rolled back. The acquire has not failed:
// the request had been granted. It wraps the cause. ErrUnavailable: nothing was written on the
// items that answered so, though the write was sent several times within a fraction of a second.
// The lease may be committed or rolled back again. ErrUnknown: the write may have been applied. It
// was not sent again, and the lease is closed.
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
