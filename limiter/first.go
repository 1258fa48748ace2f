package limiter

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
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
func (l *Limiter) createAll(ctx context.Context, wants []decide.Want, parts []*attempt, grants []decide.Grant,
	errs []error) {
	var first []int
	failed := false
	for i, err := range errs {
		if err == errAbsent {
			first, errs[i] = append(first, i), nil
			parts[i].Apart = false
		} else if err != nil {
			failed = true
		}
	}
	if failed {
		return
	}
	if len(first) > 1 {
		created, err := l.create(ctx, wants, parts, first, grants)
		for _, i := range first {
			errs[i] = err
		}
		if created || err != nil {
			return
		}
	}
	atOnce(len(first), func(j int) {
		i := first[j]
		grants[i], errs[i] = l.chargeOne(ctx, wants[i], parts[i])
	})
}

// create creates buckets in one transaction. Without an error, it reports whether
// none of them was there.
func (l *Limiter) create(ctx context.Context, wants []decide.Want, parts []*attempt, first []int,
	grants []decide.Grant) (ok bool, err error) {
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
	plans, writes := make([]decide.Planned, len(first)), make([]item.Write, len(first))
	for j, c := range all {
		plans[j] = c.desk.Create(c.want, l.moment())
		if !plans[j].Takes { // other shards of it live on
			return false, nil
		}
		writes[j] = plans[j].Write
	}
	created := func() []decide.Grant {
		made := make([]decide.Grant, len(first))
		for j, c := range all {
			b, err := table.DecodeShard(plans[j].Write.(item.Put).Item)
			if err != nil {
				panic("bug: " + err.Error())
			}
			made[j] = c.desk.Created(plans[j], b, c.want, l.now())
		}
		return made
	}
	err = l.transact(ctx, writes, parts[first[0]], created)
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		for j, r := range canceled.Reasons {
			if b, err := table.DecodeShard(r.Old); err == nil {
				all[j].desk.See(b, l.now(), decide.Unsent)
			}
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for j, g := range created() {
		grants[first[j]] = g
	}
	return true, nil
}
