package limiter

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Levels of a cascade that are used for the first time are created in one
// transaction, so that no answer that is lost leaves one of them charged alone.

// errAbsent: the bucket of a level is not there, and nothing was written.
var errAbsent = errors.New("no bucket")

// absent reports whether shard 0 is not there, so that the bucket has to be created.
func (k *known) absent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	z := k.shards[0]
	return z != nil && z.absent
}

// createAll creates the buckets that levels have found absent, if no other level was
// denied or failed. If somebody else has been faster, they are charged each by
// itself.
func (l *Limiter) createAll(ctx context.Context, wants []want, parts []*attempt, leases []*Lease, errs []error) {
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
	if failed || len(first) == 0 {
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
func (l *Limiter) create(ctx context.Context, wants []want, parts []*attempt, first []int,
	leases []*Lease) (created bool, err error) {
	all := make([]creation, len(first))
	for j, i := range first {
		all[j] = creation{wants[i], parts[i].known}
	}
	found := false
	if p := guarded(func() { found, err = l.siblings(ctx, all...) }); p != nil {
		return false, p
	}
	if found || err != nil {
		return false, err
	}
	writes := make([]item.Write, len(first))
	for j, c := range all {
		c.known.mu.Lock()
		p := c.known.createBucket(c.want, l.now())
		c.known.mu.Unlock()
		if !p.takes { // shards of it have been seen meanwhile
			return false, nil
		}
		writes[j] = p.write
	}
	if p := guarded(func() { err = l.transact(ctx, writes, parts[first[0]]) }); p != nil {
		return false, p
	}
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		for j, r := range canceled.Reasons {
			if b, err := table.DecodeShard(r.Old); r.Old != nil && err == nil {
				all[j].known.mu.Lock()
				all[j].known.see(b, l.now(), unsent, nil)
				all[j].known.mu.Unlock()
			}
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for j, i := range first {
		leases[i] = l.createdLease(all[j], writes[j].(item.Put).Item)
	}
	return true, nil
}

// createdLease makes the lease on a bucket that was created for it.
func (l *Limiter) createdLease(c creation, it item.Item) *Lease {
	b, err := table.DecodeShard(it)
	if err != nil {
		panic("bug: " + err.Error())
	}
	w, k := c.want, c.known
	k.mu.Lock()
	defer k.mu.Unlock()
	k.see(b, l.now(), unsent, w.costs)
	k.confirm(b, w, l.now())
	lease := &Lease{limiter: l, name: w.name, status: k.status(w.name.entity, w.costs, l.now()),
		items: []leaseItem{{name: w.name, key: b.Key(), taken: w.costs}}}
	lease.learn(b)
	return lease
}
