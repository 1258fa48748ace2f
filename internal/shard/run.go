package shard

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const (
	attempts = 5
	pause    = 5 * time.Millisecond
)

// Run performs the steps of a plan until nothing is left, a call fails, or ctx is done. It returns
// the number of calls that changed something. Any process can do the rest later. now is called
// before each step.
func Run(ctx context.Context, s store.Store, p *Plan, now func() int64) (steps int, err error) {
	for {
		step, ok := p.Next(now(), store.Random())
		if !ok {
			return steps, nil
		}
		held, err := run(ctx, s, p, step)
		if err != nil {
			return steps, err
		}
		if held && step.Action != Look {
			steps++
		}
	}
}

// run performs one step, passes its outcome to the plan, and reports whether it held. A transaction
// whose answer was lost is sent again with the same token. A single write is sent again, too: it is
// conditional on the count that it changes, and a second one is refused with the image that the
// first left.
func run(ctx context.Context, s store.Store, p *Plan, step Step) (held bool, err error) {
	var it item.Item
	token := rand.Text()
	lost := 0
	err = store.Retry(ctx, attempts, pause, func() error {
		var err error
		for {
			if step.Transaction() {
				err = s.Transact(ctx, token, step.Writes)
			} else {
				it, err = s.Write(ctx, step.Writes[0])
			}
			if store.KindOf(err) != store.Unknown || lost >= attempts || ctx.Err() != nil {
				return err
			}
			lost++
		}
	})
	if err == nil {
		p.Applied(step, it)
		return true, nil
	}
	if r, ok := errors.AsType[*store.Refused](err); ok {
		p.Refused(step, []store.Reason{{Refused: true, Old: r.Old}})
		return false, nil
	}
	if c, ok := errors.AsType[*store.Canceled](err); ok {
		p.Refused(step, c.Reasons)
		return false, nil
	}
	return false, err
}
