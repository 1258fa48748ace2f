package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// An entity cascades if its metadata says so: its costs are charged to its parent too. If the
// parent cascades, they are charged to the parent's parent as well. Each is charged on a shard of
// its own, all at once, and those that paid are given back unless all did.

// take takes from all levels of a request or from none, and returns what it was given of each, which is
// nothing of one that is bypassed. Its error is a denial, or that of a call without a decision, about the
// entity it names. A request that waits does so for the level that is paid back last.
func (l *Limiter) take(ctx context.Context, wants []decide.Want, tries *attempt) (grants []decide.Grant,
	at decide.Name, err error) {
	parts := tries.split(wants)
	if len(parts) > 1 {
		l.foresee(ctx, parts)
	}
	if !slices.ContainsFunc(parts, failed) {
		l.chargeAll(ctx, parts)
	}
	tries.join(parts)
	var few [maxLevels]error
	errs := few[:0]
	for _, p := range parts {
		errs = append(errs, p.err)
	}
	worst := gravest(errs)
	if len(parts) > 0 && errs[worst] != nil {
		return nil, parts[worst].Want.Name, l.takeNone(ctx, parts, worst)
	}
	grants = tries.grants[:0]
	for _, w := range wants {
		if w.Bypass {
			grants = append(grants, decide.Grant{Name: w.Name})
			continue
		}
		grants, parts = append(grants, parts[0].grant), parts[1:]
	}
	return grants, wants[0].Name, nil
}

// split makes the parts of a request, one for each level that is not bypassed. A request of one level is
// its only part.
func (t *attempt) split(wants []decide.Want) []*attempt {
	parts := t.few[:0]
	for _, w := range wants {
		p := t
		if len(wants) > 1 {
			p = &attempt{Waiter: decide.Waiter{Attempt: decide.Attempt{Waits: t.Waits, InLine: t.InLine}, End: t.End}}
		}
		if p.Want = w; !w.Bypass {
			parts = append(parts, p)
		}
	}
	return parts
}

// join notes what the parts of a request have done.
func (t *attempt) join(parts []*attempt) {
	if len(parts) == 1 && parts[0] == t {
		t.held = t.grant.Ahead
		return
	}
	t.held = len(parts) > 0
	for _, p := range parts {
		t.Calls += p.Calls
		t.held = t.held && p.grant.Ahead
		t.goesOn, t.owed = max(t.goesOn, p.goesOn), append(t.owed, p.owed...)
	}
}

func failed(p *attempt) bool { return p.err != nil }

// isOpen reports whether a part was neither granted nor denied so far.
func isOpen(p *attempt) bool { return p.err == nil && len(p.grant.Parts) == 0 }

// foresee grants from held tokens the parts of a request that these cover, and denies those that the image
// does not cover, before any is charged. A parent is busier than each of its children, so often only one
// level is written.
//
// Nothing is taken after the first denial. Children come first, so a flood on one of them takes nothing
// from its parent.
func (l *Limiter) foresee(ctx context.Context, parts []*attempt) {
	takes := true
	for _, p := range parts {
		l.prepare(ctx, p)
		k := l.deskOf(p)
		k.Foresee(&p.Waiter, takes, l.moment, &p.effects)
		l.carryOut(ctx, k, &p.effects)
		switch a := p.Answer; a.Result {
		case decide.Granted:
			p.grant = a.Grant
		case decide.Denied:
			p.err, takes = refusal(a.Decision), false
		}
	}
}

// chargeAll charges the open parts of a request at once, and creates in one transaction those whose buckets
// are not there.
func (l *Limiter) chargeAll(ctx context.Context, parts []*attempt) {
	if len(parts) == 1 {
		parts[0].grant, parts[0].err = l.charge(ctx, parts[0])
		return
	}
	open := slices.DeleteFunc(slices.Clone(parts), func(p *attempt) bool { return !isOpen(p) })
	for _, p := range open {
		p.Apart = len(open) > 1
	}
	l.chargeApart(ctx, open)
	l.createAll(ctx, open)
}

// chargeApart charges some parts of a request at once.
func (l *Limiter) chargeApart(ctx context.Context, parts []*attempt) {
	atOnce(len(parts), func(i int) {
		p := parts[i]
		if err := guarded(func() { p.grant, p.err = l.charge(ctx, p) }); err != nil {
			p.err = err
		}
	})
}

// takeNone gives back what the parts of a request were granted, of which one has failed worst. It returns
// the error of that, joined with those of parts that may be taken all the same.
func (l *Limiter) takeNone(ctx context.Context, parts []*attempt, worst int) error {
	err, others := parts[worst].err, l.giveBackSoon(ctx, parts)
	for i, p := range parts {
		if i != worst && store.KindOf(p.err) == store.Unknown {
			others = append(others, outcome("acquire", p.Want.Name, p.err))
		}
	}
	if len(others) == 0 {
		return err
	}
	err = errors.Join(slices.Insert(others, 0, err)...)
	if !decided(err) && store.KindOf(err) != store.Setup {
		err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: err}
	}
	return err
}

// giveBackSoon gives back what parts were granted. When ctx is done and a round trip has passed since, it goes on
// in the background: nobody waits for a table that hangs.
func (l *Limiter) giveBackSoon(ctx context.Context, parts []*attempt) []error {
	var leases []*Lease
	for _, p := range parts {
		if len(p.grant.Parts) > 0 {
			leases = append(leases, l.lease(p.grant))
		}
	}
	if len(leases) == 0 {
		return nil
	}
	done := make(chan []error, 1)
	l.background.Go(func() { done <- l.giveBack(ctx, leases) })
	select {
	case left := <-done:
		return left
	case <-ctx.Done():
	}
	select {
	case left := <-done:
		return left
	case <-time.After(l.store.lately().patience()):
		gone := &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: ctx.Err()}
		return []error{outcome("rollback", leases[0].name, gone)}
	}
}

// giveBack gives back what leases have taken. It returns what failed.
func (l *Limiter) giveBack(ctx context.Context, leases []*Lease) []error {
	errs := make([]error, len(leases))
	atOnce(len(leases), func(i int) {
		if err := guarded(func() { errs[i] = leases[i].Rollback(ctx) }); err != nil {
			errs[i] = outcome("rollback", leases[i].name, err)
		}
	})
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// gravest returns the index of the error that the caller is told, 0 if there is none. In this
// order: the request can never be granted; it is denied; a bucket cannot be read; a call had no
// decision. Of denials it is the one that holds longest, of such calls the one that may have
// written.
func gravest(errs []error) int {
	worst, most := 0, -1
	var longest time.Duration
	for i, err := range errs {
		rank := 0
		denied, _ := errors.AsType[*LimitError](err)
		switch kind := store.KindOf(err); {
		case err == nil:
		case denied != nil:
			rank = 5
		case decided(err):
			rank = 6
		case kind == 0 && errors.Is(err, ErrUnreadable):
			rank = 4 // no policy makes a lease of it
		case kind == store.Unknown:
			rank = 3
		case kind == store.Setup:
			rank = 2
		default:
			rank = 1
		}
		if rank > most || denied != nil && rank == most && denied.RetryAfter > longest {
			worst, most = i, rank
			if denied != nil {
				longest = denied.RetryAfter
			}
		}
	}
	return worst
}
