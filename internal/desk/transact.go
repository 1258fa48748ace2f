package desk

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// transact sends a transaction on a goroutine of its own. It returns the grant, or the images that
// refused it. If the caller leaves in the meantime, the tokens that it then takes are given back.
func (d *Desks) transact(ctx context.Context, writes []item.Write, tries *Attempt,
	taken func() []decide.Grant) (grants []decide.Grant, refused *store.Canceled, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, &store.Failure{Kind: store.Unavailable, Op: "TransactWriteItems", Err: err}
	}
	caller, mine := d.within(ctx), &decide.Attempt{Calls: tries.Calls}
	answer := make(chan error, 1)
	d.background.Go(func() {
		within := caller.outliving()
		defer within.End()
		answer <- Guarded(func() error { return d.transactAs(&within, rand.Text(), writes, mine) })
	})
	select {
	case err = <-answer:
		tries.Calls = mine.Calls
	case <-caller.caller.Done():
		d.background.Go(func() {
			if <-answer == nil {
				d.dropped(ctx, taken()...)
			}
		})
		tries.Calls++
		return nil, nil, &store.Failure{Kind: store.Unknown, Op: "TransactWriteItems", Err: ctx.Err()}
	}
	if refused, ok := errors.AsType[*store.Canceled](err); ok {
		return nil, refused, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return taken(), nil, nil
}

// transactAs sends a transaction, and again with the same token if its answer is lost, which
// carries it out once. If it is never answered, its outcome is unknown.
func (d *Desks) transactAs(ctx context.Context, token string, writes []item.Write,
	tries *decide.Attempt) error {
	var lost error
	for {
		tries.Calls++
		err := store.Retry(ctx, spreadAttempts, contentionPause,
			func() error { return d.Store.Transact(ctx, token, writes) })
		switch _, canceled := errors.AsType[*store.Canceled](err); {
		case err == nil, canceled:
			return err
		case store.KindOf(err) == store.Unknown && tries.Calls < decide.MaxRounds && ctx.Err() == nil:
			lost = err
			continue
		case lost != nil:
			return lost
		}
		return err
	}
}

// spreadAttempts bounds how often a transaction is sent again after it met another one.
const spreadAttempts = 4
