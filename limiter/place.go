package limiter

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// place tells a request that waits from when it may go on, by the images of the shards that it
// was charged to. Others may have come before, and the limiter did not know of them. If it is too
// late then, everything is given back and the request is denied.
func (l *Limiter) place(ctx context.Context, k *desk, w decide.Want, g decide.Grant, tries *attempt) error {
	images := []table.Shard{*g.Image}
	if len(g.Parts) > 1 { // a transaction brings no images
		var err error
		if images, err = l.readShards(ctx, k, w); err != nil {
			return keptBy(err, l.lease(g).Rollback(ctx))
		}
	}
	tries.goesOn, tries.owed = 0, nil
	full := false
	for _, b := range images {
		for _, p := range g.Parts {
			if p.Shard == b.State.Shard {
				owed := queue.Owed{Image: b, Limits: limitNames(w.Costs), Asked: tries.turn}
				tries.goesOn = max(tries.goesOn, decide.PaidBack(b, owed.Limits))
				tries.owed = append(tries.owed, owed)
				room, _ := decide.RoomIn(b, w, func(limit string) int64 { return -p.Of(limit) })
				full = full || len(g.Parts) == 1 && room > b.State.RF
			}
		}
	}
	until := tries.WaitsUntil(l.moment())
	if tries.goesOn <= until && !full {
		return nil
	}
	err := l.lease(g).Rollback(ctx)
	return errors.Join(limitError(w, k.Refusal(w, until, l.now())), err)
}

// keptBy is what is known of a request that a call has ended after it had taken its
// costs: if these could not be given back, they may be taken. What somebody has to set
// right stays that.
func keptBy(err, notGivenBack error) error {
	if notGivenBack == nil || store.KindOf(err) == store.Setup {
		return errors.Join(err, notGivenBack)
	}
	return &store.Failure{Kind: store.Unknown, Op: "UpdateItem", Err: errors.Join(err, notGivenBack)}
}
