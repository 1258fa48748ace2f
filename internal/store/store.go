// Package store performs planned writes on the table: one call in, one outcome out. Only this
// package calls DynamoDB and classifies its errors.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Store executes writes on one table. Implementations are safe for concurrent use. They never
// repeat a write that may have been applied although its answer was lost. Every error is a
// [*Refused], a [*Canceled] or a [*Failure]; the caller decides whether to retry. All methods block
// until there is an answer or ctx is done.
type Store interface {
	// Write performs one write and returns the item after it (nil for a delete). If the condition
	// does not hold, the error is a *Refused with the existing item.
	Write(ctx context.Context, w item.Write) (item.Item, error)
	// Transact performs all writes or none. Repeating the same token with the same writes within
	// ten minutes does nothing and succeeds. If conditions are refused, the error is a *Canceled.
	Transact(ctx context.Context, token string, writes []item.Write) error
	// Read returns the items at keys, in their order, with nil for absent ones. Reads are
	// eventually consistent unless consistent is set. There may be at most 100 keys; a repeated key
	// is read once. The implementation may repeat reads.
	Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error)
}

// Refused means that the condition of a write did not hold, and nothing was written.
type Refused struct {
	Old item.Item // the existing item; nil if there was none
}

func (r *Refused) Error() string {
	if r.Old == nil {
		return "condition refused: no such item"
	}
	return fmt.Sprintf("condition refused by item %q", item.KeyOf(r.Old).PK)
}

// Canceled means that at least one condition of a transaction did not hold, and nothing was
// written.
type Canceled struct {
	Reasons []Reason // one per write, in order
}

// Reason is why one of a transaction's writes failed.
type Reason struct {
	Refused bool
	Old     item.Item // the existing item, if refused and there was one
}

func (c *Canceled) Error() string { return "transaction refused" }

// Kind is what a failed call leaves certain.
type Kind int

// The kinds of failure.
const (
	// Unavailable: nothing was written, and an immediate retry does not help.
	Unavailable Kind = iota + 1
	// Throttled: nothing was written, because DynamoDB slowed us down.
	Throttled
	// Conflict: nothing was written because a transaction holds the item.
	Conflict
	// Unknown: there was no answer, and the write may have been applied.
	Unknown
	// Setup: DynamoDB rejects the call as such, because there is no such table or no permission, or
	// the request is invalid. Nothing was written, and nothing will be until the setup is fixed.
	Setup
)

// String returns the kind in the words of the glossary.
func (k Kind) String() string {
	switch k {
	case Unavailable:
		return "unavailable"
	case Setup:
		return "not set up"
	case Throttled:
		return "throttled"
	case Conflict:
		return "conflict"
	case Unknown:
		return "unknown"
	}
	return "bug: no kind"
}

// Failure is a call that got no decision.
type Failure struct {
	Kind Kind
	Op   string // the API operation
	Err  error
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s: %v", f.Op, f.Kind, f.Err) }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// KindOf returns the kind of failure in err, or zero if there is none.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Kind
	}
	return 0
}
