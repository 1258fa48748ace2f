// Package store performs planned writes on the table: one call in, one outcome
// out. It is the only place that talks to DynamoDB and the only place that
// classifies its errors.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Store executes writes on one table. Implementations are safe for concurrent use and never send a
// write again that may have been applied, because its answer was lost. Every error is a [*Refused],
// a [*Canceled] or a [*Failure]; callers decide whether to repeat. All methods block until there is
// an answer or ctx is done.
type Store interface {
	// Write performs one write. It returns the item as it is afterwards (nil
	// for a delete). A condition that does not hold is a *Refused with the
	// item as it was.
	Write(ctx context.Context, w item.Write) (item.Item, error)
	// Transact performs all writes or none. Sending the same token with the
	// same writes again within ten minutes does nothing and succeeds. Refused
	// conditions are a *Canceled.
	Transact(ctx context.Context, token string, writes []item.Write) error
	// Read returns the items at keys, in their order, nil where there is none.
	// Reads are eventually consistent unless consistent is set. At most 100
	// keys; one that is named twice is read once. Reads may be repeated by the implementation.
	Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error)
}

// Refused says that the condition of a write did not hold; nothing was written.
type Refused struct {
	Old item.Item // as it was, nil if there was no item
}

func (r *Refused) Error() string {
	if r.Old == nil {
		return "condition refused: no such item"
	}
	return fmt.Sprintf("condition refused by item %q", item.KeyOf(r.Old).PK)
}

// Canceled says that at least one condition of a transaction did not hold;
// nothing was written.
type Canceled struct {
	Reasons []Reason // one per write, in order
}

// Reason is the part of a canceled transaction's error about one of its writes.
type Reason struct {
	Refused bool
	Old     item.Item // as it was, when refused and there was an item
}

func (c *Canceled) Error() string { return "transaction refused" }

// Kind is the certainty left after a failed call.
type Kind int

// The kinds of failure.
const (
	// Unavailable: nothing was written and trying again at once is no use.
	Unavailable Kind = iota + 1
	// Throttled: nothing was written because DynamoDB slowed us down.
	Throttled
	// Conflict: nothing was written because a transaction holds the item.
	Conflict
	// Unknown: no answer, the write may have been applied.
	Unknown
	// Setup: DynamoDB rejects the call as such: there is no such table, no
	// permission, or the request is not valid. Nothing was written, and nothing will
	// be until somebody acts.
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
