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

// take charges all levels of a request or none, and returns what it was given of each. Its error is a
// denial, or that of a call without a decision, about the entity it names. A request that waits does so
// for the level that is paid back last.
func (l *Limiter) take(ctx context.Context, wants []decide.Want, tries *attempt) (grants []decide.Grant,
	at decide.Name, err error) {
	if slices.ContainsFunc(wants, isBypassed) {
		return l.takeBesides(ctx, wants, tries)
	} else if len(wants) > 1 && !tries.Waits && slices.ContainsFunc(wants, takesAhead) {
		return l.takeLevels(ctx, wants, tries)
	} else if len(wants) > 1 {
		if at, err = l.foresee(ctx, wants, tries); err != nil {
			return nil, at, err
		}
	}
	return l.chargeEach(ctx, wants, tries)
}

// chargeEach charges all levels, or the only one.
func (l *Limiter) chargeEach(ctx context.Context, wants []decide.Want,
	tries *attempt) (grants []decide.Grant, at decide.Name, err error) {
	if len(wants) > 1 {
		return l.chargeAll(ctx, wants, tries)
	}
	tries.grants[0], err = l.charge(ctx, wants[0], tries)
	return tries.grants[:], wants[0].Name, err
}

// takeLevels takes from all levels of a cascade, and from held tokens where they suffice. A parent
// is busier than each of its children, so often only one level is written.
func (l *Limiter) takeLevels(ctx context.Context, wants []decide.Want, tries *attempt) (grants []decide.Grant,
	at decide.Name, err error) {
	grants = make([]decide.Grant, len(wants))
	var rest []decide.Want
	for i, w := range wants {
		var ok bool
		if grants[i], ok = l.fromHeld(ctx, l.desks.of(w.Name), w); ok {
			continue
		}
		rest = append(rest, w)
		if at, err = l.foresee(ctx, wants[i:i+1], tries); err == nil {
			continue
		}
		if longer, more := l.foresee(ctx, wants[i:], tries); more != nil { // and take nothing of its parents
			at, err = longer, more
		}
		break
	}
	if err == nil && len(rest) > 0 {
		var charged []decide.Grant
		if charged, at, err = l.chargeEach(ctx, rest, tries); err == nil {
			insert(grants, charged, func(i int) bool { return len(grants[i].Parts) == 0 })
		}
	}
	if err != nil {
		return nil, at, errors.Join(append([]error{err}, l.giveBackSoon(ctx, grants)...)...)
	}
	tries.held = len(rest) == 0
	return grants, at, nil
}

// takesAhead reports whether tokens of a level may be taken ahead.
func takesAhead(w decide.Want) bool { return w.Ahead > 0 }

// takeBesides charges the levels of a request that are not bypassed, all or none.
func (l *Limiter) takeBesides(ctx context.Context, wants []decide.Want,
	tries *attempt) ([]decide.Grant, decide.Name, error) {
	var charged []decide.Grant
	if rest := slices.DeleteFunc(slices.Clone(wants), isBypassed); len(rest) > 0 {
		var at decide.Name
		var err error
		if charged, at, err = l.take(ctx, rest, tries); err != nil {
			return nil, at, err
		}
	}
	grants := make([]decide.Grant, len(wants))
	for i, w := range wants {
		grants[i].Name = w.Name
	}
	insert(grants, charged, func(i int) bool { return !wants[i].Bypass })
	return grants, wants[0].Name, nil
}

// insert puts what was charged, in order, into the places that are open for it.
func insert[T any](all, charged []T, open func(i int) bool) {
	for i := range all {
		if open(i) {
			all[i], charged = charged[0], charged[1:]
		}
	}
}

// level returns what one level of a request begins with.
func (a *attempt) level() *attempt {
	return &attempt{Waiter: decide.Waiter{Attempt: decide.Attempt{Waits: a.Waits, InLine: a.InLine}, End: a.End}}
}

// foresee denies what the image of one level cannot cover, before any level is
// charged.
func (l *Limiter) foresee(ctx context.Context, wants []decide.Want, tries *attempt) (decide.Name, error) {
	errs := make([]error, len(wants))
	for i, w := range wants {
		level, k := tries.level(), l.desks.of(w.Name)
		level.Want = w
		d := k.Foresee(&level.Waiter, l.moment, &level.effects)
		l.carryOut(ctx, k, &level.effects)
		if d.Do == decide.Deny || d.Do == decide.Never {
			errs[i] = refusal(d)
		}
	}
	i := gravest(errs)
	return wants[i].Name, errs[i]
}

// chargeAll charges all levels at once, those whose buckets are not there in one
// transaction, and gives back what was charged unless all of them were.
func (l *Limiter) chargeAll(ctx context.Context, wants []decide.Want,
	tries *attempt) ([]decide.Grant, decide.Name, error) {
	grants, errs, parts := make([]decide.Grant, len(wants)), make([]error, len(wants)), make([]*attempt, len(wants))
	for i := range parts {
		parts[i] = tries.level()
		parts[i].Apart = true
	}
	atOnce(len(wants), func(i int) { grants[i], errs[i] = l.chargeOne(ctx, wants[i], parts[i]) })
	l.createAll(ctx, wants, parts, grants, errs)
	for _, p := range parts {
		tries.Calls += p.Calls
	}
	worst := gravest(errs)
	if errs[worst] == nil {
		for _, p := range parts {
			tries.goesOn, tries.owed = max(tries.goesOn, p.goesOn), append(tries.owed, p.owed...)
		}
		return grants, wants[0].Name, nil
	}
	left := l.giveBackSoon(ctx, grants)
	for i, err := range errs {
		if i != worst && store.KindOf(err) == store.Unknown {
			left = append(left, outcome("acquire", wants[i].Name, err))
		}
	}
	err := errs[worst]
	if len(left) > 0 {
		err = errors.Join(slices.Insert(left, 0, err)...)
		if !decided(err) && store.KindOf(err) != store.Setup {
			err = &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: err}
		}
	}
	return nil, wants[worst].Name, err
}

// chargeOne is charge for one of several levels. Without a grant nothing is to be given back.
func (l *Limiter) chargeOne(ctx context.Context, w decide.Want, tries *attempt) (g decide.Grant, err error) {
	if p := guarded(func() { g, err = l.charge(ctx, w, tries) }); p != nil {
		err = p
	}
	if err != nil {
		return decide.Grant{}, err
	}
	return g, nil
}

// giveBackSoon gives back what was granted. When ctx is done and a round trip has passed since, it goes on
// in the background: nobody waits for a table that hangs.
func (l *Limiter) giveBackSoon(ctx context.Context, grants []decide.Grant) []error {
	var leases []*Lease
	for _, g := range grants {
		if len(g.Parts) > 0 {
			leases = append(leases, l.lease(g))
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
