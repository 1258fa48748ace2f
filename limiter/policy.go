package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// unasked is the outcome of a request that is not sent, and the stored policy for it. That a part is disabled
// may be known all the same.
func (l *Limiter) unasked(parts []portion) (at decide.Name, stored Policy, err error) {
	for _, a := range parts {
		cfg, err := l.configs.last(a.name(), a.own)
		if stored = cfg.policy; errors.Is(err, ErrDisabled) {
			return a.name(), stored, unresolved(a.name(), err)
		}
	}
	return parts[0].name(), stored, desk.ErrOpen
}

// undecided returns the error of a request that was denied or can never be granted. It turns a call that
// got no decision or no answer into the caller's error, or applies the policy.
func (l *Limiter) undecided(ctx context.Context, req Request, parts []portion, n decide.Name, stored Policy,
	err error) (*Lease, error) {
	if decided(err) {
		return nil, err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrUnreadable) {
		return nil, canceled("acquire", n, cause, err)
	}
	err = outcome("acquire", n, err)
	policy := cmp.Or(req.OnUnavailable, stored, l.opts.OnUnavailable)
	switch {
	case errors.Is(err, ErrSetup), errors.Is(err, ErrUnreadable): // no policy: somebody has to act
	case policy == PolicyAllow:
		return &Lease{limiter: l, request: req, name: req.name(), cause: err}, nil
	case policy == PolicyLocal:
		return l.grant(req, parts, err)
	}
	return nil, err
}

// Under PolicyLocal a request without a decision is decided by buckets that this process keeps in memory, each
// with a share of its limits. They know nothing of the table, and the table nothing of them.

// grant decides a request that has no decision because of cause. It needs the limits, which come
// from the call or from the configuration that was read last, however old. If they are not known,
// or the share can never hold the costs, the cause is returned.
func (l *Limiter) grant(req Request, parts []portion, cause error) (*Lease, error) {
	var wants []decide.Want
	for i, a := range parts {
		some, err := l.localWants(a, cause)
		if err != nil {
			return nil, err
		}
		if wants, err = besides(wants, some, i); err != nil {
			return nil, &opError{"acquire", a.name(), ErrInvalid, err}
		}
	}
	grants, err := l.locals.Take(wants, l.now())
	if share, ok := errors.AsType[*desk.ShareError](err); ok {
		return nil, errors.Join(cause, fmt.Errorf("%w: %d percent of %s", err, share.Percent, public(share.Limit)))
	} else if denied, ok := errors.AsType[*desk.Denied](err); ok {
		return nil, errors.Join(refusal(denied.Decision), cause)
	}
	lease := l.leaseOf(grants)
	for _, a := range lease.levels() {
		a.cause = cause
	}
	lease.request = req
	return lease, nil
}

// localWants returns what a part of a request needs of all its levels, as far as that is known.
func (l *Limiter) localWants(a portion, cause error) (wants []decide.Want, err error) {
	own := a.own
	for n := a.name(); ; own = nil {
		cfg, err := l.configs.last(n, own)
		if errors.Is(err, ErrDisabled) {
			return nil, &opError{"acquire", n, ErrDisabled, err}
		}
		if err != nil {
			break
		}
		w, err := l.want(n, a.Request, cfg)
		if denied, ok := errors.AsType[*LimitError](err); ok {
			return nil, denied // by a limit that blocks
		}
		if err != nil {
			return nil, cause
		}
		if slices.ContainsFunc(w.Costs, func(c table.Cost) bool { return isSlots(c) && c.Milli > 0 }) {
			return nil, cause // nobody knows what other processes have in flight
		}
		w.Costs = slices.DeleteFunc(w.Costs, isSlots)
		wants = append(wants, w)
		if !cfg.cascade {
			break
		}
		n.Entity = cfg.parent
		if len(wants) == maxLevels { // or a circle: neither is charged while the table answers
			return nil, cause
		}
	}
	if len(wants) == 0 {
		return nil, cause
	}
	return wants, nil
}
