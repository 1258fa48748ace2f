package limiter

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// unresolved turns a failed resolution into the caller's error or policy.
func (l *Limiter) unresolved(ctx context.Context, req Request, n decide.Name, own []bucket.Limit, cfg resolved,
	err error) (*Lease, error) {
	if errors.Is(err, ErrLimited) {
		return nil, err
	}
	for _, kind := range [...]error{ErrNoLimits, ErrInvalid, ErrTooLarge, ErrNamespace, ErrDisabled} {
		if errors.Is(err, kind) {
			return nil, &opError{"acquire", n, kind, err}
		}
	}
	return l.undecided(ctx, req, n, own, cfg.policy, err)
}

// undecided turns a call that got no decision or no answer into the caller's error,
// or applies the policy.
func (l *Limiter) undecided(ctx context.Context, req Request, n decide.Name, own []bucket.Limit, stored Policy,
	err error) (*Lease, error) {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrUnreadable) {
		return nil, canceled("acquire", n, cause, err)
	}
	err = outcome("acquire", n, err)
	policy := l.policy(req, stored)
	switch {
	case errors.Is(err, ErrSetup), errors.Is(err, ErrUnreadable): // no policy: somebody has to act
	case policy == PolicyAllow:
		return &Lease{limiter: l, name: n, cause: err}, nil
	case policy == PolicyLocal:
		return l.grant(req, own, err)
	}
	return nil, err
}

// policy returns the policy for a request without a decision.
func (l *Limiter) policy(req Request, stored Policy) Policy {
	for _, p := range []Policy{req.OnUnavailable, stored} {
		if p != PolicyDefault {
			return p
		}
	}
	return l.opts.OnUnavailable
}
