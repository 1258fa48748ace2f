package desk

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
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

// create creates the buckets of parts in one transaction. It returns nothing if one of them was there.
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
			made[i] = k.Created(plans[i], parts[i].Want, d.clock())
		}
		return made
	})
	if refused != nil {
		for i, r := range refused.Reasons {
			if b, err := table.DecodeShard(r.Old); err == nil {
				desks[i].See(b, d.clock(), decide.Unsent)
			}
		}
	}
	return grants, err
}

// A bucket whose shard 0 is not there is new, has expired or was deleted. Or shard 0 alone was
// deleted, by hand or by another client, and the other shards live on. Created full, shard 0 would
// grant again what they hold. So a process that is about to create a bucket reads its shard 1
// first. Shard 0 splits that off first and merges it last, so every bucket of several shards has
// it.

// siblings looks for living shards of buckets whose shard 0 is missing, before they are created. It
// remembers them with the count that shard 0 had. It costs a consistent read unit for each bucket,
// in one call. Where shard 1 is found, others are looked for that shard 0 may have split off while
// shard 1 was not split yet.
//
// Nobody can create shard 0 unnoticed after the read: the write that creates it has the
// condition that it is missing.
func (d *Desks) siblings(ctx context.Context, all ...*Desk) error {
	shards := make([]int, len(all)) // to be read next
	for i := range shards {
		shards[i] = 1
	}
	for len(all) > 0 {
		keys := make([]item.Key, len(all))
		for i, k := range all {
			keys[i] = d.Key(k.Name, shards[i])
		}
		items, err := d.Store.Read(ctx, true, keys...)
		if err != nil {
			return err
		}
		var more []*Desk
		var next []int
		for i, k := range all {
			count, err := k.Survives(shards[i], items[i], d.clock())
			if err != nil {
				return err
			}
			if count > shards[i] && count < bucket.MaxShards {
				more, next = append(more, k), append(next, count)
			}
		}
		all, shards = more, next
	}
	return nil
}
