package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const (
	// maxAttempts bounds the writes of one Acquire. Every refused write brings
	// the image that explains it, so more than a few mean that others take what
	// there is.
	maxAttempts = 24
	// contentionPause is the base of the jittered pause after DynamoDB slowed us
	// down or a transaction held the item.
	contentionPause = 2 * time.Millisecond
)

// Acquire takes the costs from all limits of an entity and resource, all or
// nothing, and returns a lease on what it took. An entity that cascades is charged
// together with its parent, and with up to two more above it as far as their own
// flags say so: one UpdateItem each, at once, and those that paid are given back if
// one is denied; buckets that are not there yet are created in one transaction. Every
// one of them has its own stored limits for the resource, and must have all that
// costs are named for; Request.Limits are the entity's own. A parent that does not
// exist, a circle and a fifth level are ErrInvalid. Warm, it sends one UpdateItem
// and reads nothing; a request that the last image of the bucket cannot cover is
// denied without any call until that image is older than Options.DenyFor.
//
// It blocks for as long as the calls take, bounded by ctx and Options.Timeout, and never
// waits for tokens. Errors are one of ErrLimited (a *LimitError), ErrUnavailable,
// ErrUnknown, ErrInvalid, ErrTooLarge, ErrNoLimits, ErrNamespace, ErrSetup and
// ErrCanceled. Under PolicyAllow, ErrUnavailable and ErrUnknown become a lease that has
// charged nothing, under PolicyLocal one of this process's own share; the others never do.
// After a few calls in a row without an answer, further ones are ErrUnavailable at once,
// but for one that probes four times a second.
func (l *Limiter) Acquire(ctx context.Context, req Request) (*Lease, error) {
	begin, tries := l.begin(), &attempt{}
	lease, err := l.acquire(ctx, req, tries)
	l.tellAcquire(ctx, req, begin, tries, lease, err)
	return lease, err
}

// acquire resolves a request and takes its costs.
func (l *Limiter) acquire(ctx context.Context, req Request, tries *attempt) (*Lease, error) {
	own, err := req.validate()
	if err != nil {
		return nil, err
	}
	n := name{req.Entity, req.Resource}
	if !l.breaker.admits(time.Now()) {
		cfg, _ := l.configs.last(n, own)
		return l.undecided(ctx, req, n, own, cfg.policy, errOpen)
	}
	bounded := l.bounded(ctx)
	defer bounded.release()
	cfg, err := l.configs.resolve(bounded, n, own, l.now())
	if err != nil {
		l.heard(ctx, err)
		return l.unresolved(ctx, req, n, own, cfg, err)
	}
	wants, at, err := l.levels(bounded, n, req.Costs, cfg)
	if err != nil {
		if store.KindOf(err) != 0 { // else nothing was asked
			l.heard(ctx, err)
		}
		return l.unresolved(ctx, req, at, own, cfg, err)
	}
	lease, at, err := l.take(bounded, wants, tries)
	l.heard(ctx, err)
	if !decided(err) {
		return l.undecided(ctx, req, at, own, cfg.policy, err)
	}
	if lease != nil {
		lease.request = req
	}
	return lease, err
}

// unresolved turns a failed resolution into the caller's error or policy.
func (l *Limiter) unresolved(ctx context.Context, req Request, n name, own []bucket.Limit, cfg resolved,
	err error) (*Lease, error) {
	switch {
	case errors.Is(err, ErrLimited):
		return nil, err
	case errors.Is(err, errNoLimits):
		return nil, &opError{"acquire", n.entity, n.resource, ErrNoLimits, nil}
	case errors.Is(err, ErrInvalid):
		return nil, &opError{"acquire", n.entity, n.resource, ErrInvalid, err}
	case errors.Is(err, ErrTooLarge):
		return nil, &opError{"acquire", n.entity, n.resource, ErrTooLarge, err}
	case errors.Is(err, ErrNamespace):
		return nil, &opError{"acquire", n.entity, n.resource, ErrNamespace, err}
	}
	return l.undecided(ctx, req, n, own, cfg.policy, err)
}

// undecided turns a call that got no decision or no answer into the caller's error,
// or applies the policy.
func (l *Limiter) undecided(ctx context.Context, req Request, n name, own []bucket.Limit, stored Policy,
	err error) (*Lease, error) {
	if cause := context.Cause(ctx); cause != nil {
		return nil, canceled("acquire", n, cause, err)
	}
	err = outcome("acquire", n, err)
	policy := l.policy(req, stored)
	switch {
	case errors.Is(err, ErrSetup):
	case policy == PolicyAllow:
		return &Lease{limiter: l, name: n, cause: err}, nil
	case policy == PolicyLocal:
		return l.grant(req, own, err)
	}
	return nil, err
}

// policy returns what holds for a request when there is no decision.
func (l *Limiter) policy(req Request, stored Policy) Policy {
	for _, p := range []Policy{req.OnUnavailable, stored} {
		if p != PolicyDefault {
			return p
		}
	}
	return l.opts.OnUnavailable
}

// outcome names what is known after a call failed.
func outcome(op string, n name, err error) error {
	kind := ErrUnavailable
	switch store.KindOf(err) {
	case store.Unknown:
		kind = ErrUnknown
	case store.Setup:
		kind = ErrSetup
	}
	return &opError{op, n.entity, n.resource, kind, err}
}

// canceled is the outcome of a call that the caller's context has ended. It tells,
// as outcome does, whether anything may have been taken.
func canceled(op string, n name, cause, err error) error {
	known := ErrUnavailable
	if store.KindOf(err) == store.Unknown {
		known = ErrUnknown
	}
	return &opError{op, n.entity, n.resource, ErrCanceled, fmt.Errorf("%w: %w", known, cause)}
}

// charge decides from what is known of the bucket and writes, until a write holds,
// the request is denied, or a call fails.
func (l *Limiter) charge(ctx context.Context, w want, tries *attempt) (*Lease, error) {
	k := l.images.of(w.name)
	var me *waiter
	for asked := w; ; {
		w = l.inForce(ctx, k, asked)
		c, refusal := l.decide(k, w, tries)
		if refusal != nil {
			if !c.repeats {
				l.mend(ctx, k, w.name)
			}
			return nil, refusal
		}
		if tries.apart && k.absent() {
			return nil, errAbsent
		}
		if me == nil {
			me = &waiter{turn: make(chan turn, 1)}
		}
		me.want = w
		t := l.send(ctx, k, c, me, tries)
		if t.lease != nil && c.owe {
			t.err = l.place(ctx, k, w, t.lease, tries)
		}
		switch {
		case t.err != nil:
			return nil, t.err
		case t.lease != nil:
			return t.lease, nil
		}
	}
}

// send takes the costs from the shard that was chosen, or from several. Without a
// lease or an error, more is known now.
func (l *Limiter) send(ctx context.Context, k *known, c choice, me *waiter, tries *attempt) turn {
	if c.action != several {
		return l.board(ctx, k, c, me, tries)
	}
	tries.spread = true
	lease, err := l.spread(ctx, k, me.want, c.owe, tries)
	return turn{lease: lease, err: err}
}

// decide picks the shard to write to, or returns the error that denies.
func (l *Limiter) decide(k *known, w want, tries *attempt) (choice, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := l.now()
	if tries.queue == nil && k.denied.covers(w, now) {
		return choice{repeats: true}, k.denied.error(now)
	}
	d := decider{known: k, want: w, now: now, denyFor: l.opts.DenyFor.Milliseconds(), attempt: tries, pick: random()}
	c := d.decide()
	if c.action == write && max(tries.rounds, tries.calls) >= maxAttempts {
		c = d.giveUp()
	}
	if tries.queue != nil && (c.action == deny || c.look || c.adopt) {
		c = d.behind(c)
	}
	tries.rounds++
	if c.action == deny && tries.queue != nil {
		return c, d.explain(c)
	}
	switch c.action {
	case write, several:
		return c, nil
	case never:
		return c, d.tooLarge(c)
	}
	return c, d.remember(c).error(now)
}
