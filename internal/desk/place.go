package desk

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// place works out when a request that waits may go on, from the images of the shards that it was charged to.
// Requests of other processes may have come before it. If it is too late then, everything is given back and
// the request is denied.
func (d *Desks) place(ctx context.Context, k *Desk, w decide.Want, g decide.Grant, tries *Attempt) error {
	images := []table.Shard{*g.Image}
	if len(g.Parts) > 1 { // a transaction brings no images
		var err error
		if images, _, err = d.readShards(ctx, k); err != nil {
			tries.others = d.giveBack(ctx, []decide.Grant{g})
			return err
		}
	}
	tries.GoesOn, tries.Owed = 0, nil
	full := false
	for _, b := range images {
		for _, p := range g.Parts {
			if p.Shard == b.State.Shard {
				owed := waitqueue.Owed{Image: b, Limits: table.NamesOf(w.Costs), Asked: tries.turn}
				tries.GoesOn = max(tries.GoesOn, decide.PaidBack(b, owed.Limits))
				tries.Owed = append(tries.Owed, owed)
				room, _ := decide.RoomIn(b, w, func(limit string) int64 { return -p.Of(limit) })
				full = full || len(g.Parts) == 1 && room > b.State.RF
			}
		}
	}
	until := tries.WaitsUntil(d.Moment())
	if tries.GoesOn <= until && !full {
		return nil
	}
	tries.others = d.giveBack(ctx, []decide.Grant{g})
	denial := k.Refusal(w, until, d.clock())
	return &Denied{decide.Decision{Choice: decide.Choice{Do: decide.Deny}, Want: w, Denial: denial}}
}
