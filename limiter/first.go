package limiter

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/known"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Levels of a cascade that are used for the first time are created in one
// transaction, so that no answer that is lost leaves one of them charged alone.

// errAbsent: the bucket of a level is not there, and nothing was written.
var errAbsent = errors.New("no bucket")

// createAll creates the buckets that levels have found absent, if no other level was
// denied or failed. If somebody else has been faster, they are charged each by
// itself.
func (l *Limiter) createAll(ctx context.Context, wants []known.Want, parts []*attempt, leases []*Lease, errs []error) {
	var first []int
	failed := false
	for i, err := range errs {
		if err == errAbsent {
			first, errs[i] = append(first, i), nil
			parts[i].apart = false
		} else if err != nil {
			failed = true
		}
	}
	if failed {
		return
	}
	if len(first) > 1 {
		created, err := l.create(ctx, wants, parts, first, leases)
		for _, i := range first {
			errs[i] = err
		}
		if created || err != nil {
			return
		}
	}
	atOnce(len(first), func(j int) {
		i := first[j]
		leases[i], errs[i] = l.chargeOne(ctx, wants[i], parts[i])
	})
}

// create creates buckets in one transaction. Without an error, it reports whether
// none of them was there.
func (l *Limiter) create(ctx context.Context, wants []known.Want, parts []*attempt, first []int,
	leases []*Lease) (ok bool, err error) {
	all := make([]creation, len(first))
	for j, i := range first {
		all[j] = creation{wants[i], parts[i].desk}
	}
	if p := guarded(func() { err = l.siblings(ctx, all...) }); p != nil {
		return false, p
	}
	if err != nil {
		return false, err
	}
	plans, writes := make([]known.Planned, len(first)), make([]item.Write, len(first))
	for j, c := range all {
		plans[j] = c.desk.Create(c.want, l.moment())
		if !plans[j].Takes { // other shards of it live on
			return false, nil
		}
		writes[j] = plans[j].Write
	}
	created := func() *Lease {
		made := make([]*Lease, len(first))
		for j := range first {
			made[j] = l.createdLease(all[j], plans[j])
		}
		made[0].above = made[1:]
		return made[0]
	}
	err = l.transact(ctx, writes, parts[first[0]], created)
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		for j, r := range canceled.Reasons {
			if b, err := table.DecodeShard(r.Old); err == nil {
				all[j].desk.See(b, l.now(), known.Unsent)
			}
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	made := created()
	for j, le := range made.levels() {
		leases[first[j]] = le
	}
	made.above = nil
	return true, nil
}

// createdLease makes the lease on a bucket that was created for it.
func (l *Limiter) createdLease(c creation, p known.Planned) *Lease {
	b, err := table.DecodeShard(p.Write.(item.Put).Item)
	if err != nil {
		panic("bug: " + err.Error())
	}
	levels := c.desk.Took(b, p, c.want, nil, l.now())
	lease := &Lease{limiter: l, name: c.want.Name, counts: levels, after: &b,
		items: []leaseItem{{name: c.want.Name, key: b.Key(), taken: c.want.Costs}}}
	return lease
}
