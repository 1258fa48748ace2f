package function

import (
	"context"
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/sequence"
)

// Response is the partial batch response of a stream function. The zero value
// says that every record was dealt with. Lambda takes the lowest sequence
// number in it as checkpoint and delivers that record, and all after it, again.
type Response struct {
	failures []string
	state    json.RawMessage
}

// Done is the response that acknowledges the whole batch.
func Done() Response { return Response{} }

// ResumeAt is the response that acknowledges every record before the one with
// this sequence number. An empty sequence number names no record, so it
// acknowledges nothing: Lambda delivers the whole batch again.
func ResumeAt(sequence string) Response { return Response{failures: []string{sequence}} }

// With returns the response with the state that Lambda hands to the next
// invocation of the tumbling window, a JSON object. Without a tumbling window
// there is none: nil.
func (r Response) With(state []byte) Response {
	r.state = state
	return r
}

// Bytes is the JSON of the response, ready to be returned from a handler. It has the form that Lambda
// reads: {"batchItemFailures":[{"itemIdentifier":"…"}]}, with an empty array, never null, when nothing
// failed, and "state" if there is one.
func (r Response) Bytes() []byte {
	type item struct {
		ItemIdentifier string `json:"itemIdentifier"`
	}
	items := make([]item, 0, len(r.failures))
	for _, f := range r.failures {
		items = append(items, item{f})
	}
	b := inJSON(struct {
		BatchItemFailures []item `json:"batchItemFailures"`
	}{items})
	if len(r.state) > 0 {
		// It is an object already, of up to 700 KB, which marshaling would read twice.
		b = append(append(append(b[:len(b)-1], `,"state":`...), r.state...), '}')
	}
	return b
}

// MarshalJSON implements [json.Marshaler].
func (r Response) MarshalJSON() ([]byte, error) { return r.Bytes(), nil }

// Resume collects what failed in a batch. The zero value says nothing failed.
// It is not safe for concurrent use.
type Resume struct {
	failed bool
	lowest string
}

// Fail notes that the record with this sequence number has to be delivered
// again. An empty sequence number repeats the whole batch.
func (r *Resume) Fail(number string) {
	if !r.failed || sequence.Compare(number, r.lowest) < 0 {
		r.lowest = number
	}
	r.failed = true
}

// At is the sequence number to resume from; ok is false when nothing failed.
func (r *Resume) At() (sequence string, ok bool) { return r.lowest, r.failed }

// Response is the partial batch response.
func (r *Resume) Response() Response {
	if !r.failed {
		return Done()
	}
	return ResumeAt(r.lowest)
}

// WithMargin returns a context that ends margin before ctx's deadline, or after half of the time
// that is left when that is later. So an invocation stops starting work while there is time to
// report the rest, and always has some time to work in. Without a deadline only ctx's own
// cancellation ends it. The caller must call cancel.
func WithMargin(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(margin, time.Until(deadline)/2)))
}
