package desk

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// EventKind is the kind of an event.
type EventKind int

// Kinds of events, and the fields that each has besides Kind and Name.
const (
	Refused   EventKind = iota // the condition of a charge failed
	Looked                     // a call goes out to learn the image
	Upkeep                     // Op failed by Err
	Ahead                      // Taken or Ended with Writes, or Op failed by Err
	Yielded                    // the bucket has Limits from now on, in place of this process's
	Reshaped                   // Before shards became After
	Lost                       // leases have lost their slots
	Switched                   // a breaker is Open or closed, because of Err; no name: the breaker of all buckets
	Settled                    // what leases handed over: Costs, by Writes of its own, or Op failed by Err
	Returned                   // a grant was given back: Costs by Writes, in Elapsed, unless it failed by Errs
	Throttled                  // a call was throttled, by Err; no name: it reads configuration
)

// Event is something that happened.
type Event struct {
	Kind          EventKind
	Name          decide.Name
	Op            string
	Err           error
	Errs          []error // of Returned, by shard
	Writes        int
	Taken, Ended  []table.Cost
	Costs         []table.Cost
	Limits        []bucket.Limit
	Before, After int
	Open          bool
	Elapsed       time.Duration
}

// Trouble is a failed call in addition to the one that a request failed by.
type Trouble struct {
	Op   string // "acquire" or "rollback"
	Name decide.Name
	Errs []error
}

// Denied is the error of a request that was denied.
type Denied struct{ decide.Decision }

// Error implements error.
func (*Denied) Error() string { return "denied" }

// gravest returns the index of the error to report, 0 if there is none. In this order: the request
// can never be granted; it is denied; a bucket cannot be read; a call had no decision. Among
// denials the longest comes first, among calls without a decision the one that may have written.
func gravest(errs []error) int {
	worst, most := 0, -1
	var longest int64 // ms
	for i, err := range errs {
		rank := 0
		denied, _ := errors.AsType[*Denied](err)
		switch kind := store.KindOf(err); {
		case err == nil:
		case denied != nil && denied.Do == decide.Never:
			rank = 6
		case denied != nil:
			rank = 5
		case kind == 0 && errors.Is(err, table.ErrUnreadable):
			rank = 4 // no policy makes a lease of it
		case kind == store.Unknown:
			rank = 3
		case kind == store.Setup:
			rank = 2
		default:
			rank = 1
		}
		if rank > most || denied != nil && rank == most && denied.Denial.After > longest {
			worst, most = i, rank
			if denied != nil {
				longest = denied.Denial.After
			}
		}
	}
	return worst
}
