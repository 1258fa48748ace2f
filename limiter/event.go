package limiter

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// EventKind is the kind of an [Event]. It determines which fields are set.
type EventKind int

// The kinds of events.
const (
	// EventAcquire: a call of Acquire, Wait, Reserve, Do or Lease.Charge has its outcome, whatever
	// that is. There is exactly one for every such call. Set: Entity, Resource, Costs, Also, Err,
	// Policy, Writes, Ahead, Overdrawn, Elapsed.
	EventAcquire EventKind = iota + 1
	// EventCommit: a lease was committed, or could not be. There is none for a lease that has
	// charged nothing. Writes is zero for a lease of PolicyLocal, and for differences that go with
	// other writes (see EventSettle). Set: Entity, Resource, Costs, Also, Err, Writes, Elapsed.
	EventCommit
	// EventRollback is EventCommit for a lease that was rolled back. It also reports tokens that
	// the limiter itself gives back: because another level of a cascade denied, or because callers
	// have left. Acquires that went out together then have one event. With Err, the tokens are
	// lost, or may be.
	EventRollback
	// EventLook: a write that takes nothing was sent, to refresh an old image of a bucket that
	// denies, or to find out whether the table answers again (see EventBreaker). It costs a write
	// unit. Set: Entity, Resource.
	EventLook
	// EventRefused: a write was refused because others had changed the bucket first; the limiter
	// decides again. Set: Entity, Resource.
	EventRefused
	// EventYield: other processes have written other limits into a bucket, because they run another
	// release or have read newer configuration. This process now uses their limits, for a minute at
	// most. Set: Entity, Resource, Limits.
	EventYield
	// EventSplit: this process has raised the number of a bucket's shards. Set:
	// Entity, Resource, Shards.
	EventSplit
	// EventMerge: this process has lowered the number of a bucket's shards. Set:
	// Entity, Resource, Shards.
	EventMerge
	// EventUpkeep: work that no caller waits for has failed: a split, a merge, or a write that
	// keeps a bucket in debt from expiring. It is tried again when the bucket is used. Set: Entity,
	// Resource, Err.
	EventUpkeep
	// EventBreaker: several calls in a row were throttled or had no answer, so calls are no longer
	// sent, except for a few probes; or the table answers again. Set: Open, and Err if it is open.
	EventBreaker
	// EventClock: the correction of the system's clock has changed (see Options.Now), or DynamoDB's
	// answers ask for more than a day, which the limiter does not believe. Set: Clock.
	EventClock
	// EventThrottled: DynamoDB has throttled a call. It is sent again a few times, after growing
	// pauses, before it fails. Set: Err; Entity and Resource, unless it reads configuration.
	EventThrottled
	// EventAhead: this process has taken tokens ahead with a charge, or could not (see
	// Options.Ahead). Or it has reported or given back expired tokens, or slots that it kept for
	// its next requests. Requests that were granted from them are in EventAcquire. Set: Entity,
	// Resource, Taken, Ended, Err, Writes.
	EventAhead
	// EventSettle: a settlement handed over by Commit or Rollback (see Options.SettleWithin) was
	// written, or may not have been: then Costs are the differences that may be lost. Writes is
	// zero if it went with a charge. Or several settlements whose callers wait went in one write.
	// Set: Entity, Resource, Costs, Writes, Err.
	EventSettle
	// EventLost: a lease has lost its slots of an in-flight limit. They could not be renewed in
	// time (see Lease.Lost), or the lease was dropped without being ended. There is one for each
	// such lease. Set: Entity, Resource.
	EventLost
)

var eventNames = [...]string{
	EventAcquire: "acquire", EventCommit: "commit", EventRollback: "rollback", EventLook: "look",
	EventRefused: "refused", EventYield: "yield", EventSplit: "split", EventMerge: "merge", EventUpkeep: "upkeep",
	EventBreaker: "breaker", EventClock: "clock", EventThrottled: "throttled",
	EventAhead: "ahead", EventSettle: "settle", EventLost: "lost",
}

// String returns the kind in one lower-case word, as a metric may be labeled.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("EventKind(%d)", int(k))
}

// Event is something that has happened, for logs, metrics and traces (see Options.Observe). It is a
// plain value; fields that its kind does not set are zero. It is a [slog.LogValuer].
type Event struct {
	Kind EventKind
	// Entity and Resource are the request's. In a cascade, Err names the entity that denied.
	Entity, Resource string
	// Costs of an acquire are the requested ones, nil if Entity is bypassed. Costs of a commit or a
	// rollback are the difference to the tokens taken: negative for tokens given back, nil if there
	// is no difference. All slots count as given back, even if this process keeps them or has lost
	// them. Events without Err leave out tokens that no acquire without Err has reported: shares of
	// PolicyLocal, and tokens that the limiter itself gives back. So their costs add up to the
	// tokens taken. Do not change them.
	Costs Costs
	// Also has the other parts of a request with [Request.Also]. Their costs follow the rules of
	// Costs.
	Also []Part
	// Err is why it failed, nil on success; see Outcome.
	Err error
	// Policy is the policy that let an acquire through without a decision; Err says why there was
	// none. Otherwise it is PolicyDefault.
	Policy Policy
	// Writes is how many writes were sent; for a commit or a rollback, how many items it has
	// written by itself. Zero means that it cost nothing. Acquires of one process that went out
	// together share one write, which counts for the first of them. That write also takes their
	// prefetched tokens.
	Writes int
	// Ahead: the acquire was granted from tokens that this process had taken ahead, without a
	// call (see Options.Ahead).
	Ahead bool
	// Overdrawn are the soft limits that are in debt after an acquire (see Lease.Overdrawn).
	Overdrawn []Status
	// Taken was taken ahead. Ended was taken ahead earlier and has expired unused: usage does not
	// count it. A crash loses what has not been reported.
	Taken, Ended Costs
	// Elapsed is how long the call took, including the waiting of Wait.
	Elapsed time.Duration
	// Limits are the ones in force among the requested limits.
	Limits []Limit
	// Shards is how many shards the bucket has now.
	Shards int
	// Open: calls are not sent.
	Open bool
	// Clock says how the correction of the clock has changed.
	Clock ClockInfo
}

// ClockInfo describes a change in the correction of the system's clock.
type ClockInfo struct {
	// Before and After are the corrections. If they are equal, the limiter does not believe the
	// correction that the answers asked for.
	Before, After time.Duration
	// Reported is the correction that DynamoDB's answers asked for.
	Reported time.Duration
	// Set: the system's clock was set, which drops the correction; Reported is zero unless an
	// answer followed at once.
	Set bool
}

// Outcome returns the outcome of an acquire, a commit or a rollback in one word: "ok", "denied",
// "unavailable", "unknown", "canceled", "setup", "unreadable" or "invalid". ErrSetup and
// ErrNamespace are "setup"; every error without a word of its own is "invalid". For other kinds of
// events it is "".
func (e Event) Outcome() string {
	switch e.Kind {
	case EventAcquire, EventCommit, EventRollback:
	default:
		return ""
	}
	switch {
	case e.Err == nil:
		return "ok"
	case errors.Is(e.Err, ErrCanceled): // it is ErrUnknown or ErrUnavailable too
		return "canceled"
	case errors.Is(e.Err, ErrLimited):
		return "denied"
	case errors.Is(e.Err, ErrSetup), errors.Is(e.Err, ErrNamespace):
		return "setup"
	case errors.Is(e.Err, ErrUnknown):
		return "unknown"
	case errors.Is(e.Err, ErrUnavailable):
		return "unavailable"
	case errors.Is(e.Err, ErrUnreadable):
		return "unreadable"
	}
	return "invalid"
}

// LogValue returns the fields that are set, as a group: slog.Any("limiter", e) logs
// them under "limiter".
func (e Event) LogValue() slog.Value {
	attrs := append(make([]slog.Attr, 0, 12), slog.String("event", e.Kind.String()))
	if e.Entity != "" {
		attrs = append(attrs, slog.String("entity", e.Entity), slog.String("resource", e.Resource))
	}
	switch e.Kind {
	case EventAcquire, EventCommit, EventRollback:
		attrs = append(attrs, slog.String("outcome", e.Outcome()), slog.Int("writes", e.Writes),
			slog.Duration("elapsed", e.Elapsed))
		if len(e.Costs) > 0 {
			attrs = append(attrs, slog.Any("costs", e.Costs))
		}
		for _, p := range e.Also {
			attrs = append(attrs, slog.Group("also", "entity", p.Entity, "resource", p.Resource, "costs", p.Costs))
		}
		for _, s := range e.Overdrawn {
			attrs = append(attrs, slog.Group("overdrawn", "by", s.Entity, "limit", s.Limit, "remaining", s.Remaining))
		}
	case EventSettle:
		attrs = append(attrs, slog.Any("costs", e.Costs), slog.Int("writes", e.Writes))
	case EventAhead:
		attrs = append(attrs, slog.Any("taken", e.Taken), slog.Any("ended", e.Ended), slog.Int("writes", e.Writes))
	case EventYield:
		attrs = append(attrs, slog.Any("limits", e.Limits))
	case EventSplit, EventMerge:
		attrs = append(attrs, slog.Int("shards", e.Shards))
	case EventBreaker:
		attrs = append(attrs, slog.Bool("open", e.Open))
	case EventClock:
		attrs = append(attrs, slog.Duration("before", e.Clock.Before), slog.Duration("after", e.Clock.After),
			slog.Duration("reported", e.Clock.Reported), slog.Bool("set", e.Clock.Set))
	}
	if e.Policy != PolicyDefault {
		attrs = append(attrs, slog.String("policy", e.Policy.String()))
	}
	if denial, ok := errors.AsType[*LimitError](e.Err); ok {
		attrs = append(attrs, slog.String("denied_by", denial.Entity), slog.String("limit", denial.Limit))
		if denial.Never() {
			attrs = append(attrs, slog.Bool("never", true))
		} else {
			attrs = append(attrs, slog.Duration("retry_after", denial.RetryAfter))
		}
	} else if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	return slog.GroupValue(attrs...)
}

// plus returns costs with others added, nil while there are none.
func (c Costs) plus(more []table.Cost) Costs {
	for _, m := range more {
		if m.Milli == 0 {
			continue
		}
		if c == nil {
			c = Costs{}
		}
		c[m.Limit.Name] += m.Milli / bucket.Milli
	}
	return c
}

// kindOf has the kinds of events of desks as the observer gets them.
var kindOf = [...]EventKind{
	desk.Refused: EventRefused, desk.Looked: EventLook, desk.Upkeep: EventUpkeep, desk.Ahead: EventAhead,
	desk.Yielded: EventYield, desk.Reshaped: EventSplit, desk.Lost: EventLost, desk.Switched: EventBreaker,
	desk.Settled: EventSettle, desk.Returned: EventRollback, desk.Throttled: EventThrottled,
}

// eventOf returns an event of a desk as the observer gets it, if it does.
func eventOf(d desk.Event) (e Event, ok bool) {
	e = Event{Kind: kindOf[d.Kind], Entity: d.Name.Entity, Resource: d.Name.Resource, Err: d.Err, Writes: d.Writes,
		Elapsed: d.Elapsed, Open: d.Open, Taken: Costs(nil).plus(d.Taken), Ended: Costs(nil).plus(d.Ended)}
	if d.Op != "" && d.Err != nil {
		e.Err = outcome(d.Op, d.Name, d.Err)
	}
	switch d.Kind {
	case desk.Ahead:
		if e.Writes == 0 && e.Err == nil && e.Taken == nil && e.Ended == nil {
			return e, false
		}
	case desk.Yielded:
		for _, lim := range d.Limits {
			e.Limits = append(e.Limits, public(lim))
		}
	case desk.Reshaped:
		if e.Shards = d.After; d.After < d.Before {
			e.Kind = EventMerge
		}
	case desk.Settled:
		if d.Err != nil { // else the commit has reported them
			e.Costs = e.Costs.plus(d.Costs)
		}
	case desk.Returned:
		if len(d.Errs) > 0 {
			e.Err = settleError("rollback", d.Name, d.Errs)
			e.Costs = e.Costs.plus(slices.DeleteFunc(slices.Clone(d.Costs), isSlots))
		}
	}
	return e, true
}
