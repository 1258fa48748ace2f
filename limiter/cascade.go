package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// An entity cascades if its metadata says so: its costs are charged to its parent too. If the
// parent cascades, they are charged to the parent's parent as well. Each is charged on a shard of
// its own, all at once, and those that paid are given back unless all did.

// take charges all levels of a request or none. Its error is a denial, or that of a
// call without a decision, about the entity it names. A request that waits does so
// for the level that is paid back last.
func (l *Limiter) take(ctx context.Context, wants []known.Want, tries *attempt) (lease *Lease, at known.Name,
	err error) {
	if at = wants[0].Name; slices.ContainsFunc(wants, isBypassed) {
		return l.takeBesides(ctx, wants, tries)
	} else if len(wants) > 1 && !tries.Waits && slices.ContainsFunc(wants, takesAhead) {
		return l.takeLevels(ctx, wants, tries)
	} else if len(wants) == 1 {
		lease, err = l.charge(ctx, wants[0], tries)
	} else if at, err = l.foresee(ctx, wants, tries); err == nil {
		lease, at, err = l.chargeAll(ctx, wants, tries)
	}
	return lease, at, err
}

// takeLevels takes from all levels of a cascade, and from held tokens where they suffice. A parent
// is busier than each of its children, so often only one level is written.
func (l *Limiter) takeLevels(ctx context.Context, wants []known.Want, tries *attempt) (lease *Lease, at known.Name,
	err error) {
	leases, rest := make([]*Lease, len(wants)), make([]known.Want, 0, len(wants))
	for i, w := range wants {
		if leases[i] = l.fromHeld(ctx, l.desks.of(w.Name), w, tries); leases[i] != nil {
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
	if err == nil {
		tries.held = len(rest) == 0
		if len(rest) == 1 {
			at = rest[0].Name
			lease, err = l.charge(ctx, rest[0], tries)
		} else if len(rest) > 1 {
			lease, at, err = l.chargeAll(ctx, rest, tries)
		}
	}
	if err != nil {
		return nil, at, errors.Join(append([]error{err}, l.giveBackSoon(ctx, leases)...)...)
	}
	var charged []*Lease
	if lease != nil {
		charged = lease.levels()
		lease.above = nil
	}
	for i := range leases {
		if leases[i] == nil {
			leases[i], charged = charged[0], charged[1:]
		}
	}
	leases[0].above = leases[1:]
	return leases[0], at, nil
}

// takesAhead reports whether tokens of a level may be taken ahead.
func takesAhead(w known.Want) bool { return w.Ahead > 0 }

// takeBesides charges the levels of a request that are not bypassed, all or none.
func (l *Limiter) takeBesides(ctx context.Context, wants []known.Want, tries *attempt) (*Lease, known.Name, error) {
	var charged []*Lease
	if rest := slices.DeleteFunc(slices.Clone(wants), isBypassed); len(rest) > 0 {
		lease, at, err := l.take(ctx, rest, tries)
		if err != nil {
			return nil, at, err
		}
		charged = lease.levels()
	}
	return l.besides(wants, charged, ErrBypassed), wants[0].Name, nil
}

// level returns what one level of a request begins with.
func (a *attempt) level() *attempt {
	return &attempt{Attempt: known.Attempt{Waits: a.Waits, InLine: a.InLine}, end: a.end}
}

// foresee denies what the image of one level cannot cover, before any level is
// charged.
func (l *Limiter) foresee(ctx context.Context, wants []known.Want, tries *attempt) (known.Name, error) {
	errs := make([]error, len(wants))
	for i, w := range wants {
		d := l.decide(ctx, l.desks.of(w.Name), w, tries.level())
		if d.Do == known.Deny || d.Do == known.Never {
			errs[i] = refusal(d)
		}
	}
	i := gravest(errs)
	return wants[i].Name, errs[i]
}

// chargeAll charges all levels at once, those whose buckets are not there in one
// transaction, and gives back what was charged unless all of them were.
func (l *Limiter) chargeAll(ctx context.Context, wants []known.Want, tries *attempt) (*Lease, known.Name, error) {
	leases, errs, parts := make([]*Lease, len(wants)), make([]error, len(wants)), make([]*attempt, len(wants))
	for i := range parts {
		parts[i] = tries.level()
		parts[i].apart = true
	}
	atOnce(len(wants), func(i int) { leases[i], errs[i] = l.chargeOne(ctx, wants[i], parts[i]) })
	l.createAll(ctx, wants, parts, leases, errs)
	for _, p := range parts {
		tries.Calls += p.Calls
	}
	worst := gravest(errs)
	if errs[worst] == nil {
		for _, p := range parts {
			tries.goesOn, tries.owed = max(tries.goesOn, p.goesOn), append(tries.owed, p.owed...)
		}
		leases[0].above = leases[1:]
		return leases[0], wants[0].Name, nil
	}
	left := l.giveBackSoon(ctx, leases)
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

// chargeOne is charge for one of several levels.
func (l *Limiter) chargeOne(ctx context.Context, w known.Want, tries *attempt) (lease *Lease, err error) {
	if p := guarded(func() { lease, err = l.charge(ctx, w, tries) }); p != nil {
		return nil, p
	}
	return lease, err
}

// giveBackSoon is giveBack. When ctx is done and a round trip has passed since, it goes on in the
// background: nobody waits for a table that hangs.
func (l *Limiter) giveBackSoon(ctx context.Context, leases []*Lease) []error {
	first := slices.IndexFunc(leases, func(le *Lease) bool { return le != nil })
	if first < 0 {
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
		return []error{outcome("rollback", leases[first].name, gone)}
	}
}

// giveBack gives back what leases have taken; some are nil. It returns what failed.
func (l *Limiter) giveBack(ctx context.Context, leases []*Lease) []error {
	errs := make([]error, len(leases))
	atOnce(len(leases), func(i int) {
		if leases[i] == nil {
			return
		}
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
