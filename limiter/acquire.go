package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Words of this file: a want is what a request needs of one bucket, limits and costs. A desk decides about
// it, see internal/desk. An attempt is what this call has done so far. A grant is what a request was given of
// one bucket, and becomes a lease.

// Acquire takes the costs from all limits of an entity and resource, all or nothing, and
// returns a lease on what it took. It never waits for tokens.
//
// Warm, it sends one UpdateItem and reads nothing. A request that the last image of the
// bucket cannot cover is denied without a call, until that image is older than
// Options.DenyFor. It blocks for as long as its calls take, bounded by ctx and
// Options.Timeout. If others take the tokens faster, it is denied after three round trips
// at most, or sooner if ctx leaves no time for another one. That is ErrLimited, never
// ErrUnknown: each write was answered. To read all shards, because no single one has the tokens,
// is one of the three, up to a hundred shards. New buckets, limits that are not cached and
// limits that the bucket does not have yet take round trips of their own.
//
// An entity that cascades is charged together with its parent, and with up to two more
// above, as their own flags say: one UpdateItem each, at once. If one denies, the others are
// given back. Buckets that are not there yet are created in one transaction. Each entity has
// limits of its own stored for the resource, with all the names that costs are given for;
// Request.Limits are for the first entity. A parent that does not exist, a circle and a
// fifth level are ErrInvalid.
//
// The error is one of ErrLimited (a *LimitError), ErrUnavailable, ErrUnknown, ErrInvalid,
// ErrUnreadable, ErrTooLarge, ErrNoLimits, ErrDisabled, ErrNamespace, ErrSetup, ErrCanceled and ErrClosed. Policies
// concern two of them: ErrUnavailable and ErrUnknown become a lease that has charged nothing
// (PolicyAllow), or one of this process's own share (PolicyLocal). After a few calls in a row
// that were throttled or had no answer, calls are ErrUnavailable at once. Four times a second
// one of them probes first, for at most 100 ms. Once the table answers, all are sent again.
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if lease := l.atHand(ctx, req); lease != nil {
		return lease, nil
	}
	begin, tries := l.begin(), &desk.Attempt{}
	lease, err := l.acquire(ctx, req, tries)
	l.observeAcquire(ctx, req, begin, tries, lease, err)
	return lease, err
}

// acquire resolves a request and takes its costs. Three outcomes are errors: denied,
// unavailable and unknown; the policy of the call decides about the last two.
func (l *Limiter) acquire(ctx context.Context, req Request, tries *desk.Attempt) (*Lease, error) {
	n := req.name()
	if !l.desks.Enter() {
		return nil, closed("acquire", n)
	}
	defer l.desks.Leave()
	var few [1]portion
	parts, err := l.parts(req, few[:0])
	if err != nil {
		return nil, err
	}
	req.Also = slices.Clone(req.Also) // the lease keeps it, and the caller may use its own again
	if !l.answers(ctx, parts) {       // the table has been silent: do not wait for a timeout once more
		return l.unanswered(ctx, req, parts)
	}
	bounded := l.desks.Begin(ctx, tries)
	defer bounded.End()
	wants, cfg, at, err := l.needs(bounded, parts, tries.Room[:0])
	if err != nil { // which limits are in force is not known, so nothing was asked for
		if store.KindOf(err) != 0 { // else it may come from the cache, or no call was made
			l.heard(ctx, req, parts, nil, at, err)
		}
		return l.unresolved(ctx, req, parts, at, cfg.policy, err)
	}
	reused := l.desks.Reuse(wants)
	defer func() { l.desks.Unused(reused, tries.Kept()) }() // unless a lease has them
	got := l.desks.Take(bounded, wants, tries)
	err = failure(got)
	if denied, ok := errors.AsType[*LimitError](err); ok && reused != nil {
		denied.addReused(wants, reused.Of)
	}
	// Else nothing was asked: it is bypassed, granted from prefetched tokens, or denied by the last image.
	if err == nil && !tries.Held && charged(got.Grants) || store.KindOf(err) != 0 || tries.Calls > 0 {
		l.heard(ctx, req, parts, wants, got.At, err)
	}
	if !decided(err) { // unavailable or unknown
		return l.undecided(ctx, req, parts, got.At, cfg.policy, err)
	}
	if err != nil {
		return nil, err
	}
	lease := l.leaseOf(got.Grants)
	lease.request = req
	l.hold(lease, wants, reused)
	reused = nil
	return lease, nil
}

// needs resolves the limits in force for all parts of a request, at once, and the wants of all their levels,
// in the room it is given. With an error it returns the entity that the error is about.
func (l *Limiter) needs(ctx context.Context, parts []portion, room []decide.Want) (
	wants []decide.Want, cfg resolved, at decide.Name, err error) {
	if len(parts) == 1 {
		return l.levels(ctx, parts[0], room)
	}
	type need struct {
		wants []decide.Want
		cfg   resolved
		at    decide.Name
	}
	each, all := make([]need, len(parts)), make([]portion, len(parts))
	copy(all, parts) // the goroutines would put the room of a single part on the heap
	errs := desk.InParallel(len(all), func(i int) (err error) {
		e := &each[i]
		e.at = all[i].name()
		e.wants, e.cfg, e.at, err = l.levels(ctx, all[i], nil)
		return err
	})
	failed := func(err error) bool { return err != nil }
	known := func(err error) bool { return failed(err) && store.KindOf(err) == 0 } // which no policy turns into a lease
	for _, is := range [...]func(error) bool{known, failed} {
		if i := slices.IndexFunc(errs, is); i >= 0 {
			return nil, each[i].cfg, each[i].at, errs[i]
		}
	}
	for i, e := range each {
		if wants, err = besides(wants, e.wants, i); err != nil {
			return nil, e.cfg, parts[i].name(), err
		}
	}
	return wants, each[0].cfg, parts[0].name(), nil
}

// besides adds what one more part wants. No bucket is wanted twice.
func besides(wants, more []decide.Want, part int) ([]decide.Want, error) {
	for _, w := range more {
		if slices.ContainsFunc(wants, func(o decide.Want) bool { return o.Name == w.Name }) {
			return nil, validate.Invalid(fmt.Sprintf("Also[%d]", part-1), path(more[0].Name),
				fmt.Sprintf("no part that charges %q once more", path(w.Name)))
		}
	}
	return append(wants, more...), nil
}

// answers reports whether a request may be sent: not while a bucket that it names is throttled, nor while
// nothing has an answer.
func (l *Limiter) answers(ctx context.Context, parts []portion) bool {
	for _, a := range parts {
		if !l.desks.Sends(a.name()) && !l.probes(ctx, a) {
			return false
		}
	}
	return true
}

func (l *Limiter) probes(ctx context.Context, a portion) bool {
	return l.desks.Probes(ctx, a.name(), func(ctx context.Context) error {
		_, _, _, err := l.levels(ctx, a, nil)
		return err
	})
}

// heard passes the end of the calls of a request to the breakers: of all parts, or of the one that has failed.
func (l *Limiter) heard(ctx context.Context, req Request, parts []portion, wants []decide.Want, at decide.Name,
	err error) {
	of := req.partOf(wants, at)
	for _, a := range parts {
		if n := a.name(); err == nil || n == of {
			l.desks.Heard(ctx, n, at, err)
		}
	}
}
