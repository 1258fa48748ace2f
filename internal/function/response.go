package function

import (
	"context"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/sequence"
)

// Resume collects the failures of a batch. The zero value means that nothing failed. It is not safe
// for concurrent use.
type Resume struct {
	failed bool
	lowest string
}

// Fail records that the record with this sequence number must be delivered again. An empty sequence
// number repeats the whole batch.
func (r *Resume) Fail(number string) {
	if !r.failed || sequence.Compare(number, r.lowest) < 0 {
		r.lowest = number
	}
	r.failed = true
}

// At returns the sequence number to resume from; ok is false if nothing failed.
func (r *Resume) At() (sequence string, ok bool) { return r.lowest, r.failed }

// Response returns the partial batch response for a handler to return, in the form that Lambda
// reads: {"batchItemFailures":[{"itemIdentifier":"…"}]}, with an empty array, never null, if
// nothing failed. Lambda takes the sequence number as checkpoint, and delivers that record and all
// later ones again; an empty one names no record, so the whole batch is repeated. state, a JSON
// object, is passed to the next invocation of the tumbling window; without a tumbling window it is
// nil.
func (r *Resume) Response(state []byte) []byte {
	out := []byte(`{"batchItemFailures":[`)
	if r.failed {
		out = fmt.Appendf(out, `{"itemIdentifier":%s}`, inJSON(r.lowest))
	}
	out = append(out, ']')
	if len(state) > 0 { // up to 700 KB, which marshaling would read twice
		out = append(append(out, `,"state":`...), state...)
	}
	return append(out, '}')
}

// WithMargin returns a context that ends margin before ctx's deadline, or after half of the
// remaining time if that is later. So an invocation stops starting work while there is time to
// report the rest, and always has some time to work in. Without a deadline it ends only with ctx.
// The caller must call cancel.
func WithMargin(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(margin, time.Until(deadline)/2)))
}
