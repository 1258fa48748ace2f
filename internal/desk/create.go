package desk

import (
	"context"
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Levels of a cascade that are used for the first time are created in one
// transaction, so that no answer that is lost leaves one of them charged alone.

// createAll creates the buckets that parts of a request have found absent, if no other part was denied or
// failed. If somebody else has been faster, they are charged each by itself.
func (d *Desks) createAll(ctx context.Context, parts []*Attempt) {
	var first []*Attempt
	for _, p := range parts {
		if p.err == errAbsent {
			p.err, p.Apart = nil, false
			first = append(first, p)
		}
	}
	if len(first) == 0 || slices.ContainsFunc(parts, failed) {
		return
	}
	if len(first) > 1 {
		created, err := d.create(ctx, first)
		for _, p := range first {
			p.err = err
		}
		if created || err != nil {
			return
		}
	}
	d.chargeApart(ctx, first)
}

// create creates the buckets of parts in one transaction. Without an error, it reports whether none of them
// was there.
func (d *Desks) create(ctx context.Context, parts []*Attempt) (ok bool, err error) {
	all := make([]creation, len(parts))
	for i, p := range parts {
		all[i] = creation{p.Want, p.desk}
	}
	if err = Guarded(func() error { return d.siblings(ctx, all...) }); err != nil {
		return false, err
	}
	plans, writes := make([]decide.Planned, len(parts)), make([]item.Write, len(parts))
	for i, c := range all {
		plans[i] = c.desk.Create(c.want, d.Moment())
		if !plans[i].Takes { // other shards of it live on
			return false, nil
		}
		writes[i] = plans[i].Write
	}
	created := func() []decide.Grant {
		made := make([]decide.Grant, len(parts))
		for i, c := range all {
			b, err := table.DecodeShard(plans[i].Write.(item.Put).Item)
			if err != nil {
				panic("bug: " + err.Error())
			}
			made[i] = c.desk.Created(plans[i], b, c.want, d.clock())
		}
		return made
	}
	err = d.transact(ctx, writes, parts[0], created)
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		for i, r := range canceled.Reasons {
			if b, err := table.DecodeShard(r.Old); err == nil {
				all[i].desk.See(b, d.clock(), decide.Unsent)
			}
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i, g := range created() {
		parts[i].grant = g
	}
	return true, nil
}
