package streams

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// errNever means that DynamoDB refuses a write whatever is stored.
var errNever = errors.New("can never be written")

// checked returns an error for writes that DynamoDB always refuses: another client's bucket may
// have any number of limits, but an expression may not.
func checked(writes ...item.Write) error {
	for _, w := range writes {
		if err := item.Validate(w); err != nil {
			return errors.Join(errNever, err)
		}
	}
	return nil
}

// bounded is a store that does not send writes that DynamoDB always refuses.
type bounded struct{ store.Store }

// Write implements [store.Store].
func (b bounded) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if err := checked(w); err != nil {
		return nil, err
	}
	return b.Store.Write(ctx, w)
}

// Transact implements [store.Store].
func (b bounded) Transact(ctx context.Context, token string, writes []item.Write) error {
	if err := checked(writes...); err != nil {
		return err
	}
	return b.Store.Transact(ctx, token, writes)
}
