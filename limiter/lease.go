package limiter

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// leaseItem is one item that a lease has taken from.
type leaseItem struct {
	decide.Part
	local *bucket.State // of a bucket of this process, which has no key, after it was charged; nil: of the table
	due   []table.Cost  // the last settling was to write it
	slots []table.Cost  // what the next settling gives back besides
	wrote bool          // the last settling has written it by itself
}

// Lease is the result of a granted request. The tokens are taken already. A lease that is dropped
// keeps them: work that costs exactly that needs nothing else.
//
//   - Settle records the real cost of the request.
//   - Charge takes more while the work goes on.
//   - Commit ends the lease of work that is done, and writes the settlement.
//   - Rollback ends the lease of work that failed. It is made for defer.
//
// [Limiter.Do] ends its lease itself. A lease never gives back more than it has taken. It is safe
// for concurrent use.
type Lease struct {
	limiter *Limiter
	request Request // for Charge
	charged         // on the entity itself; it and all others are guarded by mu
	above   []*charged

	mu       sync.Mutex
	kept     bool // Settle was called: the costs taken or settled have arisen
	closed   bool
	observed bool            // an event has reported the grant
	slots    *inflight.Lease // of in-flight limits, on all levels; nil for none
}

// charged is what a lease has of one level: of an entity of the request, or of one that it cascades
// to.
type charged struct {
	name   decide.Name
	cause  error // why nothing was charged, nil when something was
	items  []leaseItem
	limits []bucket.Limit   // those that can be settled; nil: of the image after the charge, see settles
	counts []decide.Level   // what its status is worked out from
	status []Status         // nil: until it is asked for
	ahead  bool             // it is of prefetched tokens: without a status until that is asked for
	one    [1]leaseItem     // room for items
	after  *table.Shard     // the image right after the charge, not to be changed; nil if that is not known
	worked bool             // after was worked out: others may have written before the charge
	turn   int64            // by which all was taken, of a lease of several shards; see waitqueue.Queue.Turn
	gone   []table.Cost     // taken of quotas in a period that was over at a later Charge: not given back any more
	actual map[string]int64 // what it really cost, in tokens, of the limits of which that was said
}

// leaseOf makes the lease on the grants of all levels of a request.
func (l *Limiter) leaseOf(grants []decide.Grant) *Lease {
	le := &Lease{limiter: l}
	le.grant(grants[0])
	for _, g := range grants[1:] {
		a := &charged{}
		a.grant(g)
		le.above = append(le.above, a)
	}
	return le
}

// grant takes in a grant. One of a bypassed entity has charged nothing.
func (a *charged) grant(g decide.Grant) {
	a.fill(g.Name, g.Image, g.Limits, g.Parts...)
	if len(g.Parts) == 0 {
		a.cause = ErrBypassed
	} else {
		a.items[0].local = g.Local
	}
	a.counts, a.ahead, a.worked, a.turn = g.Levels, g.Ahead, g.Worked, g.Turn
}

// fill notes the items that have paid.
func (a *charged) fill(n decide.Name, image *table.Shard, limits []bucket.Limit, parts ...decide.Part) {
	a.name, a.after, a.limits = n, image, slices.Clip(limits)
	a.items = a.one[:0]
	for _, p := range parts {
		a.items = append(a.items, leaseItem{Part: p})
	}
}

// settles returns the limits that can be settled: all that the written item has, not only those in
// force.
func (a *charged) settles() []bucket.Limit {
	if a.limits == nil && a.after != nil {
		a.limits = a.after.State.Limits()
	}
	return a.limits
}

// statusOf returns the status of the limits of one level.
func (le *Lease) statusOf(a *charged) []Status {
	switch {
	case a.status != nil:
	case a.counts != nil:
		a.status = statuses(a.name, a.counts)
	case a.ahead:
		k := le.limiter.desks.Of(a.name)
		a.status = statuses(a.name, k.Levels(decide.Want{Costs: a.items[0].Taken}, le.limiter.now()))
	}
	return a.status
}

// image returns the shard as it was right after the charge, zero if that is not known.
func (a *charged) image() table.Shard {
	if a.after == nil {
		return table.Shard{}
	}
	return *a.after
}

// Charged reports whether the lease was charged to the table. It is false for a lease granted
// without a decision; Cause says why there was none. It is also false if the entity is bypassed;
// the entities that it cascades to may be charged all the same. On a lease of PolicyAllow every
// method does nothing and returns nil. A lease of PolicyLocal is settled like any other, but within
// this process.
func (le *Lease) Charged() bool { return le.cause == nil }

// Cause returns why a lease has charged nothing: an ErrUnavailable, an ErrUnknown if the tokens may
// have been taken after all, or ErrBypassed. It is nil for a lease that was charged.
func (le *Lease) Cause() error { return le.cause }

// Entity returns the entity of the request, which was charged unless there is a Cause.
func (le *Lease) Entity() string { return le.name.Entity }

// Resource returns the resource of the request.
func (le *Lease) Resource() string { return le.name.Resource }

// levels returns what it has of all parts: on the entity itself and on its parents, then on the
// next part's.
func (le *Lease) levels() []*charged { return append([]*charged{&le.charged}, le.above...) }

// of returns the levels of the part of the request that names n: its entity, and its parents. It is
// nil for a lease that has charged nothing.
func (le *Lease) of(n decide.Name) []*charged {
	all := le.levels()
	begin := slices.IndexFunc(all, func(a *charged) bool { return a.name == n })
	if begin < 0 {
		return nil
	}
	end := begin + 1
	for end < len(all) && le.request.also(all[end].name) == nil {
		end++
	}
	return all[begin:end]
}

// nothing reports whether the lease holds nothing, on no level.
func (le *Lease) nothing() bool {
	return len(le.items) == 0 && !slices.ContainsFunc(le.above, func(a *charged) bool { return len(a.items) > 0 })
}

// wasHeld reports whether all that the lease has taken was prefetched.
func (le *Lease) wasHeld() bool {
	return !le.nothing() &&
		!slices.ContainsFunc(le.levels(), func(a *charged) bool { return len(a.items) > 0 && !a.ahead })
}

// Status returns the limits in force, sorted by name, as they were right after the last charge of
// this lease; see [Status]. It is nil if nothing was charged. The limits of the entities that it
// cascades to follow, nearest first.
func (le *Lease) Status() []Status {
	le.mu.Lock()
	defer le.mu.Unlock()
	var out []Status
	for _, a := range le.levels() {
		out = append(out, le.statusOf(a)...)
	}
	return out
}

// Overdrawn returns the soft limits that were in debt right after the last charge of this lease:
// hard limits would have denied this request or earlier ones. It is nil if there are none.
func (le *Lease) Overdrawn() (out []Status) {
	le.mu.Lock()
	defer le.mu.Unlock()
	for _, a := range le.levels() {
		if a.ahead { // nothing of soft limits is taken ahead
			continue
		}
		for _, s := range le.statusOf(a) {
			if s.Soft && s.Remaining < 0 {
				out = append(out, s)
			}
		}
	}
	return out
}

// Settle records the real cost of the request in tokens, 0 to MaxTokens. Call it whenever you know
// more: the last value for each limit counts. Limits that are not named cost exactly the tokens
// taken, so Settle(nil) confirms all of them. You can also settle limits for which the request
// named no cost. Settle performs no I/O: Commit or Rollback writes the difference to the tokens
// taken, into debt if necessary. A settled cost counts even if the work fails later.
//
// No debt is cut, because the work was done. A shard in debt grants nothing. So its debt is
// bounded: by the excess cost of the requests that were at work when it went into debt. Other
// shards of the bucket grant their own tokens. Denials report the wait, at most 292 years.
//
// Settle fails for unknown limits, amounts out of range (ErrInvalid) and a lease that has ended
// (ErrLeaseClosed); then nothing changes.
//
// It applies to the entity and resource of the request, and to the parents that it cascades to. For
// other parts of the request see SettlePart.
func (le *Lease) Settle(actual Costs) error {
	return le.SettlePart(le.request.Entity, le.request.Resource, actual)
}

// SettlePart is Settle for one part of a request with [Request.Also], named by its entity and
// resource. The other parts cost exactly the tokens taken.
func (le *Lease) SettlePart(entity, resource string, actual Costs) error {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.closed {
		return le.errClosed("settle")
	}
	n := decide.Name{Entity: entity, Resource: resource}
	if n != le.request.name() && le.request.also(n) == nil {
		return validate.Invalid("settle part", path(n), "the entity and resource of the request, or of one in Also")
	}
	all := le.of(n)
	next := make([]map[string]int64, len(all))
	for i, a := range all {
		var err error
		if next[i], err = a.settledTo(actual); err != nil {
			return err
		}
	}
	for i, a := range all {
		a.actual = next[i]
	}
	le.kept = true
	return nil
}

// settledTo returns what limits of one level have cost then.
func (a *charged) settledTo(actual Costs) (map[string]int64, error) {
	if len(a.items) == 0 { // others were charged
		return nil, nil
	}
	next := maps.Clone(a.actual)
	if next == nil {
		next = make(map[string]int64, len(actual))
	}
	for limit, n := range actual {
		if !hasLimit(a.settles(), limit) {
			return nil, validate.Invalid("settle limit", limit,
				fmt.Sprintf("one of %q, the limits of %q", table.NamesOf(table.Costs(a.settles())), a.name.Entity))
		}
		if slices.ContainsFunc(a.settles(), func(l bucket.Limit) bool { return l.Name == limit && l.Returns() }) {
			return nil, validate.Invalid("settle limit", limit, "no in-flight limit: the end of the lease gives all slots back")
		}
		if n < 0 || n > MaxTokens {
			return nil, validate.Invalid(fmt.Sprintf("settle %q", limit), n, fmt.Sprintf("0 to %d tokens", int64(MaxTokens)))
		}
		next[limit] = n
	}
	return next, nil
}

// held returns what has been taken of a limit, in millitokens.
func (a *charged) held(limit string) int64 {
	milli := decide.Part{Taken: a.gone}.Of(limit)
	for _, it := range a.items {
		milli = bucket.AddSat(milli, it.Of(limit))
	}
	return milli
}

func (le *Lease) errClosed(op string) error {
	return &opError{op, le.name, ErrLeaseClosed, nil}
}
