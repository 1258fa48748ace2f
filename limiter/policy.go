package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// failure is the error of a request that was not granted, nil if it was.
func failure(t desk.Reply) error {
	err := t.Err
	if denied, ok := errors.AsType[*desk.Denied](err); ok {
		err = refusal(denied.Decision)
	} else if err != nil && decided(err) && !errors.Is(err, ErrLimited) {
		err = outcome("acquire", t.At, err)
	}
	if len(t.Others) == 0 {
		return err
	}
	all := []error{err}
	for _, o := range t.Others {
		if o.Op == "rollback" {
			all = append(all, settleError(o.Op, o.Name, o.Errs))
		} else {
			all = append(all, outcome(o.Op, o.Name, errors.Join(o.Errs...)))
		}
	}
	setup := store.KindOf(err) == store.Setup
	if err = errors.Join(all...); !decided(err) && !setup {
		err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: err}
	}
	return err
}

// undecided returns the error of a request that was denied or can never be granted. It turns a call that
// got no decision or no answer into the caller's error, or applies the policy.
func (l *Limiter) undecided(ctx context.Context, req Request, parts []portion, at decide.Name,
	err error) (*Lease, error) {
	if decided(err) {
		return nil, err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrUnreadable) {
		return nil, canceled("acquire", at, cause, err)
	}
	err = outcome("acquire", at, err)
	if errors.Is(err, ErrSetup) || errors.Is(err, ErrUnreadable) { // no policy: somebody has to act
		return nil, err
	}
	if refused := l.recall(ctx, parts); refused != nil {
		return nil, refused
	}
	switch cmp.Or(req.OnUnavailable, parts[0].policy, l.opts.OnUnavailable) {
	case PolicyAllow:
		return &Lease{limiter: l, request: req, charged: charged{name: req.name(), cause: err}}, nil
	case PolicyLocal:
		return l.grant(req, parts, err)
	}
	return nil, err
}

// recall works out what those parts of a request need that could not be resolved, as far as that is known from
// the configuration that was read last, however old. The error says that a part is disabled, or denied by a
// limit that blocks: that holds under every policy.
func (l *Limiter) recall(ctx context.Context, parts []portion) error {
	for i := range parts {
		p := &parts[i]
		if p.wants != nil {
			continue
		}
		known, err := l.levels(ctx, p, nil, false)
		if errors.Is(err, ErrDisabled) {
			return outcome("acquire", p.at, err)
		}
		if errors.Is(err, ErrLimited) {
			return err
		}
		p.wants = known
	}
	return nil
}

// Under PolicyLocal a request without a decision is decided by buckets that this process keeps in memory, each
// with a share of its limits. They know nothing of the table, and the table nothing of them.

// grant decides a request that has no decision because of cause. If its limits are not known, or the share can
// never hold the costs, the cause is returned.
func (l *Limiter) grant(req Request, parts []portion, cause error) (*Lease, error) {
	for _, p := range parts {
		asks := func(c table.Cost) bool { return isSlots(c) && p.Costs[c.Limit.Name] > 0 }
		inFlight := func(w decide.Want) bool { return slices.ContainsFunc(w.Costs, asks) }
		if len(p.wants) == 0 || slices.ContainsFunc(p.wants, inFlight) {
			return nil, cause // nobody knows the limits, or how many slots other processes have
		}
	}
	wants, at, err := together(parts)
	if err != nil {
		return nil, outcome("acquire", at, err)
	}
	for i, w := range wants {
		wants[i].Costs = slices.DeleteFunc(slices.Clone(w.Costs), isSlots)
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
