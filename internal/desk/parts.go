package desk

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/inflight"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// An entity cascades if its metadata says so: its costs are charged to its parent too. If the
// parent cascades, they are charged to the parent's parent as well. Each is charged on a shard of
// its own, all at the same time, and the ones that paid are given back unless all did.

// MaxLevels is how many levels a request has at most.
const MaxLevels = 4

// Reply is the result of a request.
type Reply struct {
	Grants []decide.Grant  // of each level; one that is bypassed gives nothing. Nil if not all were granted
	At     decide.Name     // the level that Err is about, or the first one
	Err    error           // a *Denied, or the error of a call without a decision
	Others []Trouble       // what may be taken all the same
	Called bool            // a call was made for it: else it is bypassed, held, or denied by the last image
	Wants  []decide.Want   // as they were asked for
	Reused *inflight.Lease // if it was granted: the slots of this process that it has taken over; nil: none
}

// Take takes from all levels of a request or from none. Err is the gravest error of all levels. A
// request that waits does so for the level that is paid back last. Take blocks until the calls are
// answered or ctx ends. Tokens that a call takes for a caller that has left are given back. Idle
// slots of this process are taken over.
func (d *Desks) Take(ctx context.Context, wants []decide.Want, tries *Attempt) (out Reply) {
	reused := d.reuse(wants)
	defer func() {
		if out.Grants == nil {
			d.unused(reused, tries.kept())
		}
	}()
	out = d.takeAll(ctx, wants, tries)
	out.Wants, out.Reused = wants, reused
	charged := func(g decide.Grant) bool { return len(g.Parts) > 0 && !g.Ahead } // also by a call of others
	out.Called = tries.Calls > 0 || store.KindOf(out.Err) != 0 || len(out.Others) > 0 ||
		slices.ContainsFunc(out.Grants, charged)
	return out
}

func (d *Desks) takeAll(ctx context.Context, wants []decide.Want, tries *Attempt) Reply {
	parts := tries.split(wants)
	if len(parts) > 1 {
		d.foresee(ctx, parts)
	}
	if !slices.ContainsFunc(parts, failed) {
		d.chargeAll(ctx, parts)
	}
	tries.join(parts)
	var few [MaxLevels]error
	errs := few[:0]
	for _, p := range parts {
		errs = append(errs, p.err)
	}
	worst := gravest(errs)
	if len(parts) > 0 && errs[worst] != nil {
		return d.takeNone(ctx, parts, worst)
	}
	grants := tries.grants[:0]
	for _, w := range wants {
		if w.Bypass {
			grants = append(grants, decide.Grant{Name: w.Name})
			continue
		}
		grants, parts = append(grants, parts[0].grant), parts[1:]
	}
	return Reply{Grants: grants, At: wants[0].Name}
}

// split makes the parts of a request, one for each level that is not bypassed. A request of one
// level is its only part.
func (t *Attempt) split(wants []decide.Want) []*Attempt {
	parts := t.few[:0]
	for _, w := range wants {
		p := t
		if len(wants) > 1 {
			p = &Attempt{Waiter: decide.Waiter{Attempt: decide.Attempt{Waits: t.Waits, InLine: t.InLine}, End: t.End}}
		}
		if p.Want = w; !w.Bypass {
			parts = append(parts, p)
		}
	}
	return parts
}

// join merges the results of a request's parts.
func (t *Attempt) join(parts []*Attempt) {
	if len(parts) == 1 && parts[0] == t {
		return
	}
	for _, p := range parts {
		t.Calls, t.Trips = t.Calls+p.Calls, max(t.Trips, p.Trips)
	}
	if slices.ContainsFunc(parts, failed) { // nothing is owed: all is given back
		return
	}
	for _, p := range parts {
		t.GoesOn, t.Owed = max(t.GoesOn, p.GoesOn), append(t.Owed, p.Owed...)
	}
}

func failed(p *Attempt) bool { return p.err != nil }

// isOpen reports whether a part was neither granted nor denied so far.
func isOpen(p *Attempt) bool { return p.err == nil && len(p.grant.Parts) == 0 }

// foresee grants parts of a request from held tokens if these cover them, and denies parts that the
// image does not cover, before any is charged. A parent is busier than each of its children, so
// often only one level is written.
//
// Nothing is taken after the first denial. Children come first, so a flood on one of them takes
// nothing from its parent. The level that takes longest denies, so after a denial even an image that
// is too old to deny is asked: nothing is charged that would bring a newer one. Such a denial is an
// estimate.
func (d *Desks) foresee(ctx context.Context, parts []*Attempt) {
	takes := true
	for _, p := range parts {
		d.prepare(ctx, p)
		takes = !d.foreseen(ctx, p, takes) && takes
	}
	if takes {
		return
	}
	for _, p := range parts {
		if isOpen(p) {
			p.Met, p.effects = true, decide.Effects{}
			if d.foreseen(ctx, p, false) {
				p.err.(*Denied).Denial.Estimated = true // others may have given back since that image
			}
		}
	}
}

// foreseen foresees one part, and reports whether it is denied.
func (d *Desks) foreseen(ctx context.Context, p *Attempt, takes bool) bool {
	k := d.deskOf(p)
	k.Foresee(&p.Waiter, takes, d.Moment, &p.effects)
	d.carryOut(ctx, k, &p.effects)
	switch a := p.Answer; a.Result {
	case decide.Granted:
		p.grant = a.Grant
	case decide.Denied:
		p.err = &Denied{a.Decision}
	}
	return failed(p)
}

// chargeAll charges the open parts of a request at once, and creates in one transaction those whose
// buckets are not there.
func (d *Desks) chargeAll(ctx context.Context, parts []*Attempt) {
	if len(parts) == 1 {
		parts[0].grant, parts[0].err = d.charge(ctx, parts[0])
		return
	}
	open := slices.DeleteFunc(slices.Clone(parts), func(p *Attempt) bool { return !isOpen(p) })
	for _, p := range open {
		p.Apart = len(open) > 1
	}
	d.chargeApart(ctx, open)
	d.createAll(ctx, open)
}

// chargeApart charges some parts of a request at once.
func (d *Desks) chargeApart(ctx context.Context, parts []*Attempt) {
	for i, err := range InParallel(len(parts), func(i int) (err error) {
		parts[i].grant, err = d.charge(ctx, parts[i])
		return err
	}) {
		parts[i].err = err
	}
}

// takeNone gives back the grants of a request's parts, of which one has failed worst.
func (d *Desks) takeNone(ctx context.Context, parts []*Attempt, worst int) Reply {
	out := Reply{At: parts[worst].Want.Name, Err: parts[worst].err, Others: d.giveBackSoon(ctx, parts)}
	for i, p := range parts {
		out.Others = append(out.Others, p.others...)
		if i != worst && store.KindOf(p.err) == store.Unknown {
			out.Others = append(out.Others, Trouble{"acquire", p.Want.Name, []error{p.err}})
		}
	}
	return out
}

// giveBackSoon gives back the grants of parts. If ctx is done and a round trip has passed since, it
// continues in the background: no caller waits for a table that hangs.
func (d *Desks) giveBackSoon(ctx context.Context, parts []*Attempt) []Trouble {
	var grants []decide.Grant
	for _, p := range parts {
		if len(p.grant.Parts) > 0 {
			grants = append(grants, p.grant)
		}
	}
	if len(grants) == 0 {
		return nil
	}
	done := make(chan []Trouble, 1)
	d.background.Go(func() { done <- d.giveBack(ctx, grants) })
	select {
	case left := <-done:
		return left
	case <-ctx.Done():
	}
	select {
	case left := <-done:
		return left
	case <-time.After(decide.Patience(d.Late())):
		gone := &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: ctx.Err()}
		return []Trouble{{"rollback", grants[0].Name, []error{gone}}}
	}
}

// Levels of a cascade that are used for the first time are created in one transaction, so that no
// answer that is lost leaves one of them charged alone.

// createAll creates the buckets that parts of a request have found absent, if no other part was
// denied or failed. If another process was first, they are charged one by one.
func (d *Desks) createAll(ctx context.Context, parts []*Attempt) {
	var first []*Attempt
	for _, p := range parts {
		if p.err == errAbsent {
			p.err, p.Apart = nil, false
			first = append(first, p)
		}
	}
	if slices.ContainsFunc(parts, failed) {
		return
	}
	if len(first) > 1 {
		grants, err := d.create(ctx, first)
		for i, p := range first {
			if p.err = err; grants != nil {
				p.grant = grants[i]
			}
		}
		if grants != nil || err != nil {
			return
		}
	}
	d.chargeApart(ctx, first)
}

// create creates the buckets of parts in one transaction. It returns nothing if one of them was
// there.
func (d *Desks) create(ctx context.Context, parts []*Attempt) ([]decide.Grant, error) {
	desks := make([]*Desk, len(parts))
	for i, p := range parts {
		desks[i] = p.desk
	}
	if err := Guarded(func() error { return d.siblings(ctx, desks...) }); err != nil {
		return nil, err
	}
	plans, writes := make([]decide.Planned, len(parts)), make([]item.Write, len(parts))
	for i, k := range desks {
		if plans[i] = k.Create(parts[i].Want, d.Moment()); !plans[i].Takes { // other shards of it live on
			return nil, nil
		}
		writes[i] = plans[i].Write
	}
	grants, refused, err := d.transact(ctx, writes, parts[0], func() []decide.Grant {
		made := make([]decide.Grant, len(parts))
		for i, k := range desks {
			made[i] = k.Created(plans[i], parts[i].Want, d.Now())
		}
		return made
	})
	if refused != nil {
		for i, r := range refused.Reasons {
			if b, err := table.DecodeShard(r.Old); err == nil {
				desks[i].See(b, d.Now(), decide.Unsent)
			}
		}
	}
	return grants, err
}
