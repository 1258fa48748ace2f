package desk

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// EventKind says what an event reports.
type EventKind int

// Kinds of events, and the fields that each has besides Kind and Name.
const (
	Refused  EventKind = iota // the condition of a charge failed
	Looked                    // a call goes out to learn the image
	Upkeep                    // Op failed by Err
	Ahead                     // Taken or Ended with Writes, or Op failed by Err
	Yielded                   // the bucket has Limits from now on, in place of this process's
	Reshaped                  // Before shards became After
	Lost                      // leases have lost their slots
	Switched                  // a breaker is Open or closed, because of Err; no name: the breaker of all buckets
	Settled                   // what leases handed over: Costs, by Writes of its own, or Op failed by Err
	Returned                  // a grant was given back: Costs by Writes, in Elapsed, unless it failed by Errs
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

// Trouble is a call that failed besides the one that a request failed by.
type Trouble struct {
	Op   string // "acquire" or "rollback"
	Name decide.Name
	Errs []error
}

// Denied is the error of a request that was denied.
type Denied struct{ decide.Decision }

// Error implements error.
func (*Denied) Error() string { return "denied" }
