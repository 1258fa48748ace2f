package memdynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// OpName is the API operation of a call.
type OpName string

// The operations.
const (
	UpdateItem         OpName = "UpdateItem"
	PutItem            OpName = "PutItem"
	DeleteItem         OpName = "DeleteItem"
	TransactWriteItems OpName = "TransactWriteItems"
	BatchGetItem       OpName = "BatchGetItem"
	Query              OpName = "Query"
	BatchWriteItem     OpName = "BatchWriteItem" // deletes only
)

// Op is a call as a [Hook] sees it.
type Op struct {
	Name       OpName
	Writes     []item.Write // a single write, or a transaction's; nil for a read
	Token      string       // of a transaction
	Keys       []item.Key   // the keys to read or delete
	Query      item.Query   // of a query
	Consistent bool         // of a read
	// Done is closed when the caller's context is done, for hooks that block.
	Done <-chan struct{}
}

// Hook is called before every call and decides whether the call is performed and whether its answer
// arrives.
//
//	apply  err
//	true   nil  the call runs as if there were no hook
//	false  err  nothing is written, and the caller gets err
//	true   err  the call is performed, but the caller gets err
//
// An err that is not an error of package store becomes a [store.Failure]: unknown if a write was
// performed, otherwise unavailable. (false, nil) counts as unavailable. If the caller's context is
// done when the hook returns, the answer is lost: the caller gets an unknown failure, or for a read
// an unavailable one. apply still decides whether the call is performed.
//
// A hook runs without any lock: it may block, and it may use [DB.Bare] to act as another process at
// this moment.
type Hook func(op Op) (apply bool, err error)

// Fail returns a [store.Failure] of a kind, for a hook to return.
func Fail(kind store.Kind) error {
	return &store.Failure{Kind: kind, Op: "injected", Err: errInjected}
}

var errInjected = errors.New("injected failure")

// call runs f under control of the hook. The result is zero if the caller gets an error.
func call[T any](ctx context.Context, db *DB, op Op, f func() (T, error)) (out T, err error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, refuse(op.Name, err)
	}
	db.mu.Lock()
	hook := db.Hook
	db.mu.Unlock()
	if hook == nil {
		return f()
	}
	op.Done = ctx.Done()
	apply, injected := hook(op)
	if !apply && injected == nil {
		injected = errors.New("not carried out")
	}
	if apply {
		out, err = f()
	} else {
		db.lock().stats.count(op.Name)
		db.mu.Unlock()
	}
	if gone := ctx.Err(); gone != nil {
		return none, lost(op, gone)
	}
	if injected != nil {
		return none, asFailure(op, apply, injected)
	}
	return out, err
}

func lost(op Op, err error) error {
	kind := store.Unknown
	if op.Name == BatchGetItem || op.Name == Query {
		kind = store.Unavailable
	}
	return &store.Failure{Kind: kind, Op: string(op.Name), Err: err}
}

func asFailure(op Op, applied bool, err error) error {
	if f, ok := errors.AsType[*store.Failure](err); ok {
		if f.Op == "injected" {
			return &store.Failure{Kind: f.Kind, Op: string(op.Name), Err: f.Err}
		}
		return err
	}
	_, refused := errors.AsType[*store.Refused](err)
	_, canceled := errors.AsType[*store.Canceled](err)
	if refused || canceled {
		return err
	}
	if applied {
		return lost(op, fmt.Errorf("answer lost: %w", err))
	}
	return &store.Failure{Kind: store.Unavailable, Op: string(op.Name), Err: err}
}
