package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Words of this file: a want is what a request needs of one bucket, limits and costs. The desk has
// what this process knows of that bucket, and the requests that wait there. An attempt is what this
// call has done so far. A grant is what a request was given of one bucket, and becomes a lease.

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
// Request.Limits are those of the first entity. A parent that does not exist, a circle and a
// fifth level are ErrInvalid.
//
// The error is one of ErrLimited (a *LimitError), ErrUnavailable, ErrUnknown, ErrInvalid,
// ErrUnreadable, ErrTooLarge, ErrNoLimits, ErrDisabled, ErrNamespace, ErrSetup and ErrCanceled. Policies
// concern two of them: ErrUnavailable and ErrUnknown become a lease that has charged nothing
// (PolicyAllow), or one of this process's own share (PolicyLocal). After a few calls in a row
// that were throttled or had no answer, calls are ErrUnavailable at once. Four times a second
// one of them probes first, for at most 100 ms. Once the table answers, all are sent again.
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if lease := l.atHand(ctx, req); lease != nil {
		return lease, nil
	}
	begin, tries := l.begin(), &attempt{}
	lease, err := l.acquire(ctx, req, tries)
	l.tellAcquire(ctx, req, begin, tries, lease, err)
	return lease, err
}

// acquire resolves a request and takes its costs. Three outcomes are errors: denied,
// unavailable and unknown; the policy of the call decides about the last two.
func (l *Limiter) acquire(ctx context.Context, req Request, tries *attempt) (*Lease, error) {
	n := decide.Name{Entity: req.Entity, Resource: req.Resource}
	own, err := req.validate(l.desks.peek(n))
	if err != nil {
		return nil, err
	}
	if !l.answers(ctx, n, req, own) { // the table has been silent: do not wait for a timeout once more
		cfg, err := l.configs.last(n, own)
		if errors.Is(err, ErrDisabled) { // that is known all the same
			return l.unresolved(ctx, req, n, own, cfg, err)
		}
		return l.undecided(ctx, req, n, own, cfg.policy, errOpen)
	}
	bounded := &tries.bound
	*bounded = bound{caller: ctx, until: time.Now().Add(l.opts.Timeout)}
	defer bounded.end()
	cfg, err := l.configs.resolve(bounded, n, own, l.now())
	if err != nil { // which limits are in force is not known, so nothing was asked for
		if store.KindOf(err) != 0 { // else it may come from the cache
			l.heard(ctx, n, n, err)
		}
		return l.unresolved(ctx, req, n, own, cfg, err)
	}
	wants, at, err := l.levels(bounded, n, req, cfg, tries.room[:0])
	if err != nil {
		if store.KindOf(err) != 0 { // else no call was made, which says nothing about the table
			l.heard(ctx, n, at, err)
		}
		return l.unresolved(ctx, req, at, own, cfg, err)
	}
	reused := l.reuse(wants)
	defer func() { l.unused(reused, tries.kept()) }() // unless a lease has them
	grants, at, err := l.take(bounded, wants, tries)
	if denied, ok := errors.AsType[*LimitError](err); ok && reused != nil {
		denied.beside(req.Costs, reused.Of)
	}
	// Else nothing was asked: it is bypassed, granted from what is held, or denied by what is known.
	if err == nil && !tries.held && charged(grants) || store.KindOf(err) != 0 || tries.Calls > 0 {
		l.heard(ctx, n, at, err)
	}
	if !decided(err) { // unavailable or unknown
		return l.undecided(ctx, req, at, own, cfg.policy, err)
	}
	if err != nil {
		return nil, err
	}
	lease := l.leaseOf(grants)
	lease.request = req
	l.hold(lease, wants, reused)
	reused = nil
	return lease, nil
}

// charge decides from what is known of the bucket and writes, until a write holds,
// the request is denied, or a call fails. It ends: after decide.MaxTrips round trips, or in any
// case after decide.MaxRounds rounds, the request is denied.
//
// Example: the image, 2 s old, shows 4 of 10 tokens, refilled by 1 per second, so 6 by
// now. A request for 5 is sent as one write under the condition that others have
// taken at most 1 since. If they have taken 3, the write is refused and brings the
// new image: 3 by now. The next round denies without a call, until 2 s later.
func (l *Limiter) charge(ctx context.Context, tries *attempt) (decide.Grant, error) {
	k := l.deskOf(tries)
	for {
		a := l.ask(ctx, k, tries)
		switch a.Result {
		case decide.Failed:
			return decide.Grant{}, a.Err
		case decide.Denied: // no shard covers the costs, and the images are fresh
			return decide.Grant{}, refusal(a.Decision)
		case decide.Absent: // of a cascade: all its buckets are created at once
			return decide.Grant{}, errAbsent
		}
		g := a.Grant
		if a.Result == decide.Gathers {
			if a.Owes {
				tries.turn = l.sleepers.Turn()
			}
			var err error
			if g, err = l.spread(ctx, k, a.Want, a.Owes, tries); err != nil {
				return decide.Grant{}, err
			}
			if g.Parts == nil { // they do not hold enough: decide again
				continue
			}
		}
		if a.Owes { // taken into debt by a request that waits: keep its place
			if err := l.place(ctx, k, a.Want, g, tries); err != nil {
				return decide.Grant{}, err
			}
		}
		return g, nil
	}
}
