package desk

import (
	"context"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/waitqueue"
)

// Sleep waits until the debt of a request is paid back. It reports whether that happened before ctx
// ended or [Desks.Close] was called.
func (d *Desks) Sleep(ctx context.Context, owed []waitqueue.Owed, after time.Duration) bool {
	s := d.Waiting.Add(owed)
	defer d.Waiting.Remove(s)
	timer, looks := time.NewTimer(after), time.NewTimer(waitqueue.LongestPause)
	defer timer.Stop()
	defer looks.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-s.Sooner():
			timer.Reset(millis(bucket.SubSat(d.Waiting.Until(s), d.Now())))
		case <-looks.C:
			looks.Reset(d.lookFor(ctx, s))
		case <-ctx.Done():
			return false
		case <-d.closing:
			return false
		}
	}
}

// lookFor reads the shards on which a sleeper owes, for all that sleep for them. If a shard cannot
// be read, nothing changes: they sleep as long as before. It returns when to look again.
func (d *Desks) lookFor(ctx context.Context, s *waitqueue.Sleeper) time.Duration {
	looks, next := d.Waiting.Due(s)
	if len(looks) == 0 {
		return next
	}
	d.background.Go(func() {
		_ = Guarded(func() error {
			bounded := d.Bounded(context.WithoutCancel(ctx)) // others use it, also if this one leaves
			defer bounded.End()
			for _, k := range looks {
				items, err := d.Store.Read(bounded, true, k.Key)
				if err != nil {
					continue
				}
				if b, err := table.DecodeShard(items[0]); err == nil {
					d.Waiting.Saw(k, b)
				}
			}
			return nil
		})
	})
	return next
}

// millis is a time in ms, at least zero and at most the longest Duration.
func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// place computes when a request that waits may go on, from the images of the shards that it was
// charged to. Requests of other processes may be ahead of it. If that makes it too late, everything
// is given back and the request is denied.
func (d *Desks) place(ctx context.Context, k *Desk, w decide.Want, g decide.Grant, tries *Attempt) error {
	images := []table.Shard{*g.Image}
	if len(g.Parts) > 1 { // a transaction brings no images
		var err error
		if images, _, err = d.readShards(ctx, k); err != nil {
			tries.others = d.giveBack(ctx, []decide.Grant{g})
			return err
		}
	}
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
	denial := k.Refusal(w, until, d.Now())
	return &Denied{decide.Decision{Choice: decide.Choice{Do: decide.Deny}, Want: w, Denial: denial}}
}
