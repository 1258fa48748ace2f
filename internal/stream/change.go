package stream

import (
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Operation tells what happened to a bucket.
type Operation uint8

const (
	Insert Operation = iota + 1 // the bucket was created
	Modify                      // the bucket was changed
	Remove                      // the bucket was removed, by whomever
)

// String returns the name that the stream uses.
func (k Operation) String() string {
	switch k {
	case Insert:
		return "INSERT"
	case Modify:
		return "MODIFY"
	case Remove:
		return "REMOVE"
	}
	return "unknown"
}

// Change is what one stream record says about one shard of a bucket.
type Change struct {
	Operation Operation
	Stream    int64  // when the stream was enabled, epoch seconds; 0 if its name does not say
	Sequence  string // as delivered: decimal digits, maybe with leading zeros; orders the records of one stream
	Created   int64  // when the change was made, epoch milliseconds

	// New is the shard after the change. Limits of which attributes are
	// missing, or whose parameters are not positive, are in Partial. Of a shard
	// that was removed it names namespace, entity, resource and shard only.
	New table.Shard

	// Deltas is how consumption grew, by limit, sorted by name, without zeros
	// in both figures. wcu is among them.
	Deltas []Delta

	// Used are the counters of both images, by limit, sorted by name, whether
	// they grew or not. wcu is not among them.
	Used []Used

	// OldGeneration and NewGeneration are the generations of the images, 0
	// where there is none. OldRF is the refill instant of the old image, epoch
	// milliseconds, 0 where there is none.
	OldGeneration, NewGeneration int64
	OldRF                        int64

	OldShards int  // count before the change, 0 when the bucket was created
	Refilled  bool // the refill instant moved, or the bucket was created
}

// Delta is the growth of one consumption counter. Growth may be negative:
// tokens were given back.
type Delta struct {
	Limit string
	Milli int64 // in millitokens
	// Tokens is the growth in whole tokens: the difference of the rounded
	// counters, not the rounded difference, so that the growths of a counter
	// always add up to the counter itself.
	Tokens int64
}

// Used is one consumption counter before and after a change, in whole tokens,
// rounded down. A counter that an image lacks is 0 there.
type Used struct {
	Limit         string
	Before, After int64
	Was, Is       bool // whether the old and the new image have it
}

// Malformed is a record that can never be decoded.
type Malformed struct {
	Index    int    // position in the batch
	Sequence string // empty if that could not be read either
	Created  int64  // epoch milliseconds, 0 if that could not be read
	Reason   string
	Raw      []byte // the record's JSON; part of the payload, not a copy
}

// Batch is a decoded payload.
type Batch struct {
	Records   int // delivered, whatever became of them
	Changes   []Change
	Malformed []Malformed
	Ignored   int   // items that are no buckets
	Oldest    int64 // least Created of the changes, 0 without changes

	// Window says that the event source mapping has a tumbling window; it is
	// zero otherwise.
	Window Window
}

// Window is what the payload says about the tumbling window it belongs to.
type Window struct {
	Open  bool   // there is one
	Final bool   // no more records come in it, or it was ended early
	State []byte // JSON that the function returned before; part of the payload, not a copy; may be empty
	Shard string // of the stream
}

// maxSequence is how many digits a sequence number has at most (AWS API
// reference, DynamoDB Streams StreamRecord).
const maxSequence = 40
