package streams

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// errNotCounted fails an invocation that had to count everything and could not: Lambda repeats it
// with the same state.
var errNotCounted = errors.New("usage not counted")

// Invoke carries out the changes that one stream payload requires and returns the partial batch
// response. A record is acknowledged only if its usage is counted, is carried on in the state of
// the tumbling window, or can never be stored: then its job is logged as failed. Work that is
// refused, unanswered or not begun when the deadline nears is reported as not done: the response
// names its lowest sequence number. Refills, reshardings and lifetimes are tried and never
// reported: clients do without. Delivering a batch again, whole or in parts, counts nothing twice.
//
// An error means that the payload is not a stream payload, or that a tumbling window ends before
// all usage that can be stored is counted. The next attempt reads what has been counted, and
// continues. Work begins until five seconds before the deadline of ctx, and all of it ends a second
// before. The method makes an Aggregator a handler of the Lambda library.
//
// The steps, for a batch of three records of one bucket, whose counter went from 100 over 103 and
// 104 to 110 tokens:
//
//	decode   three changes: +3, +1, +6; a record that cannot be read is malformed
//	fold     one shard with three changes in order, each once, even if its record came twice
//	tally    one run from 100 to 110. It is due now, or with a tumbling window carried on
//	plan     a refill if the level does not cover 10 once more, a resharding if the
//	         partition is hot or cool, a longer lifetime if the item would expire too early
//	jobs     the required ones first: malformed records to be kept, the run into its windows
//	         under the condition that they have counted up to 100, so never twice; then
//	         the ones that clients can do without
//	close    usage that could not be counted is carried on, or fails the invocation
func (a *Aggregator) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	start := a.now()
	batch, err := stream.Decode(payload)
	if err != nil {
		return nil, err
	}
	ctx, report := function.WithMargin(ctx, function.ReportMargin) // nothing continues after that
	defer report()
	within, cancel := function.WithMargin(ctx, closeMargin) // no work begins after that
	defer cancel()
	histories := usage.Fold(batch.Changes)
	a, m := a.metered()
	led := a.newTally(ctx, batch, histories)
	jobs := a.jobs(led, histories, usage.Decide(histories, start, a.conf), batch.Malformed)
	a.run(within, jobs)
	err = led.close(ctx, within)

	s := summarize(batch, jobs, led, m.units.Load())
	end := a.now()
	s.Timed(start, end, batch.Oldest)
	function.Reporter{Function: a.function, Log: a.log, Metrics: a.metrics}.Report(ctx, end, "batch folded", jobs, s)
	if err != nil {
		return nil, err // Lambda delivers everything again, with the same state
	}
	return s.Resume.Response(led.carried()), nil
}
