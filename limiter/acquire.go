package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// In this file a want is what a request needs of one bucket: limits and costs. A desk decides about
// it, see internal/desk. An attempt is the state of one call so far. A grant is what a request got
// of one bucket; it becomes a lease.

// Acquire takes the costs from all limits of an entity and resource, all or nothing, and returns a
// lease on them. It never waits for tokens.
//
// On a warm bucket it sends one UpdateItem and reads nothing. A request that the last image of the
// bucket cannot cover is denied without a call, until that image is older than Options.DenyFor.
// Acquire blocks for as long as its calls take, bounded by ctx and Options.Timeout. If others take
// the tokens first, it is denied after at most three round trips, or sooner if ctx leaves no time
// for another one. The error is then ErrLimited, never ErrUnknown: each write was answered. If no
// single shard has the tokens, reading all shards, up to a hundred, is one of the three. New
// buckets, limits that are not cached and limits that the bucket does not have yet take round trips
// of their own.
//
// An entity that cascades is charged together with its parent, and with up to two more above, as
// their own flags say: one UpdateItem each, at the same time. If one denies, the others are given
// back. Buckets that do not exist yet are created in one transaction. Each of these entities needs
// stored limits for the resource, with all the names that have costs; Request.Limits are for the
// first entity only. A parent that does not exist, a circle and a fifth level are ErrInvalid.
//
// The error is one of ErrLimited (a *LimitError), ErrUnavailable, ErrUnknown, ErrInvalid,
// ErrUnreadable, ErrTooLarge, ErrNoLimits, ErrDisabled, ErrNamespace, ErrSetup, ErrCanceled and
// ErrClosed. A policy applies to two of them: ErrUnavailable and ErrUnknown become a lease that has
// charged nothing (PolicyAllow), or one from this process's own share (PolicyLocal). After a few
// calls in a row that were throttled or had no answer, calls are ErrUnavailable at once. Four times
// a second one of them first probes the table, for at most 100 ms. Once the table answers, all
// calls are sent again.
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	begin := l.begin()
	lease, writes, err := l.acquire(ctx, req, nil)
	l.observeAcquire(ctx, req, begin, writes, lease, err)
	return lease, err
}

// acquire takes the costs of a request, and returns how many writes it sent. The tries belong to a
// request that waits; nil is a request that does not, and that may be granted from held tokens.
// Three outcomes are errors: denied, unavailable and unknown; the call's policy decides about the
// last two.
func (l *Limiter) acquire(ctx context.Context, req Request, tries *desk.Attempt) (lease *Lease, writes int,
	err error) {
	if !l.desks.Enter() {
		return nil, 0, closed("acquire", req.name())
	}
	defer l.desks.Leave()
	var few [1]portion
	parts, err := l.parts(req, few[:0])
	if err != nil {
		return nil, 0, err
	}
	req.Limits = parts[0].Limits
	if tries == nil {
		if lease = l.atHand(ctx, req, parts); lease != nil {
			return lease, 0, nil
		}
		tries = &desk.Attempt{}
	}
	req.Also = slices.Clone(req.Also) // the lease keeps it, and the caller may change its slice
	got := l.take(ctx, parts, tries)
	err = failure(got)
	for _, p := range parts { // all, or the one that has failed
		if got.Called && (err == nil || p.charges(got.At)) {
			l.desks.Heard(ctx, p.name(), got.At, err)
		}
	}
	if err != nil {
		lease, err = l.undecided(ctx, req, parts, got.At, err)
		return lease, tries.Calls, err
	}
	lease = l.leaseOf(got.Grants)
	lease.request = req
	l.hold(lease, got.Wants, got.Reused)
	return lease, tries.Calls, nil
}

// parts checks a request, and returns its parts in the room that it is given.
func (l *Limiter) parts(req Request, room []portion) ([]portion, error) {
	if n := 1 + len(req.Also); n > maxParts {
		return nil, validate.Invalid("Also", validate.Plain(fmt.Sprintf("%d parts", n-1)),
			fmt.Sprintf("at most %d", maxParts-1))
	}
	one := req
	one.Also = nil
	for i := -1; i < len(req.Also); i++ {
		if i >= 0 {
			p := req.Also[i]
			one.Entity, one.Resource, one.Costs, one.Limits = p.Entity, p.Resource, p.Costs, p.Limits
		}
		p, err := l.portion(one)
		if err != nil && i >= 0 {
			err = fmt.Errorf("part Also[%d]: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(room, func(o portion) bool { return o.name() == p.name() }) {
			return nil, validate.Invalid(fmt.Sprintf("Also[%d]", i), path(p.name()), "every entity and resource once")
		}
		room = append(room, p)
	}
	return room, nil
}

// portion checks one part of a request. A busy process sends the same limits again and again:
// if they are equal to the ones before, they are not checked again.
func (l *Limiter) portion(req Request) (p portion, err error) {
	p.Request = req
	if err = req.validate(); err != nil || req.Limits == nil {
		return p, err
	}
	if last := l.configs.LastOwn(p.name()); last != nil {
		if passed, _ := last.Of.([]Limit); slices.Equal(passed, req.Limits) {
			p.own, p.Limits = last, passed
			return p, nil
		}
	}
	stored, err := storedLimits("Limits", req.Limits)
	p.Limits = slices.Clone(req.Limits) // the caller may change its slice
	p.own = &inforce.Own{Limits: stored, Of: p.Limits}
	return p, err
}

// take takes what all parts of a request need, or nothing.
func (l *Limiter) take(ctx context.Context, parts []portion, tries *desk.Attempt) desk.Reply {
	for _, p := range parts { // the table may have been silent: do not wait for a timeout once more
		if l.desks.Sends(p.name()) {
			continue
		}
		own := p // on the heap, for the probe may last longer than this call
		if !l.desks.Probes(ctx, p.name(), func(ctx context.Context) error {
			_, err := l.levels(ctx, &own, nil, true)
			return err
		}) {
			return desk.Reply{At: parts[0].name(), Err: desk.ErrOpen}
		}
	}
	bounded := l.desks.Begin(ctx, tries)
	defer bounded.End()
	wants, at, err := l.needs(bounded, parts, tries.Room[:0])
	if err != nil { // which limits are in force is not known, or they never grant it: nothing was asked for
		return desk.Reply{At: at, Err: err, Called: store.KindOf(err) != 0}
	}
	return l.desks.Take(bounded, wants, tries)
}

// Do acquires, runs fn with the lease, and commits the lease. If fn returns an error while ctx goes
// on, Do rolls back: it gives everything back, unless fn has settled (see [Lease.Settle]). A client
// cannot cause a refund: if fn panics, or ctx has ended, Do commits. Neither is cut short when ctx
// is done; both are bounded by Options.Timeout.
//
// The error is Acquire's if fn did not run, otherwise fn's own, joined with a *SettleError if the
// lease could not be committed or rolled back. fn may end the lease itself, and must not use the
// lease after it has returned.
func (l *Limiter) Do(ctx context.Context, req Request, fn func(context.Context, *Lease) error) error {
	lease, err := l.Acquire(ctx, req)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // fn panicked or called runtime.Goexit, which passes on
			_ = lease.Commit(context.WithoutCancel(ctx))
		}
	}()
	within, cancel := lease.Within(ctx)
	defer cancel()
	err = fn(within, lease)
	returned = true
	end := lease.Commit
	if err != nil && ctx.Err() == nil {
		end = lease.Rollback
	}
	failed := end(context.WithoutCancel(ctx))
	if failed == nil || errors.Is(failed, ErrLeaseClosed) { // fn has ended it
		return err
	}
	return errors.Join(err, failed)
}

// AllowResource is the resource that [Limiter.Allow] takes from.
const AllowResource = "default"

// Allow takes one token from each limit of an entity, all or nothing, and returns nil if they were
// there. It is Acquire with a cost of one of each limit, on the resource [AllowResource], for
// callers that limit a single thing and settle nothing: the tokens stay taken.
//
//	err := l.Allow(ctx, "acme", limiter.PerSecond("rps", 10), limiter.PerDay("rpd", 10_000))
//
// It needs at least one limit, no name twice, and no in-flight limit, whose slots only a lease gives
// back: for those and for stored limits use Acquire. Errors, blocking and price are the same as
// Acquire's: a denial is a [*LimitError] that says when to try again. Under PolicyAllow and
// PolicyLocal a table that does not answer is not an error.
func (l *Limiter) Allow(ctx context.Context, entity string, limits ...Limit) error {
	costs := make(Costs, len(limits))
	for _, limit := range limits {
		costs[limit.Name] = 1
		if limit.stored().Returns() {
			return validate.Invalid("Allow limit", limit.Name, "no in-flight limit: slots are taken by Acquire")
		}
	}
	_, err := l.Acquire(ctx, Request{Entity: entity, Resource: AllowResource, Costs: costs, Limits: limits})
	return err
}
