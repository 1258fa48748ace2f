package eventsource

import (
	"errors"
	"fmt"
	"time"
)

// Settings are the properties of an event source mapping that affect batches and retries. Zero
// values are not defaults; start from DefaultSettings, or from a function of tablespec.
type Settings struct {
	Filters    []string      // see ParseFilter
	BatchSize  int           // most records of a batch, 1 to 10,000
	Window     time.Duration // how long a batch that is not full waits for more records, 0 to 300 s
	Tumbling   time.Duration // length of a tumbling window, up to 900 s; 0: none
	Factor     int           // lanes per shard, 1 to 10; records of one item stay in one lane
	MaxRetries int           // retries of a batch before it is given up; -1: unlimited
	MaxAge     time.Duration // older records are given up; negative: never
	Bisect     bool          // halve a batch that failed as a whole
	Report     bool          // read batch item failures from the answer
	RetryDelay time.Duration // pause before the first retry of a batch, doubled for each further one

	// PartialState keeps the state of an answer that reports failures, which AWS does not document;
	// without it, the previous state stays.
	PartialState bool

	Destination string // type of the on-failure destination; empty: none
}

// Types of destinations. Others, such as topics, get the same as queues.
const (
	DestinationS3  = "AWS::S3::Bucket" // gets the whole invocation record with its payload
	DestinationSQS = "AWS::SQS::Queue" // gets metadata only
)

// maxRetryDelay bounds the doubling of Settings.RetryDelay.
const maxRetryDelay = 2 * time.Second

// DefaultSettings are AWS's defaults for a mapping, with a local pause between retries.
func DefaultSettings() Settings {
	return Settings{BatchSize: 100, Factor: 1, MaxRetries: -1, MaxAge: -1, RetryDelay: 20 * time.Millisecond}
}

// validate returns an error for every number that AWS would refuse.
func (s Settings) validate() error {
	var problems []error
	between := func(name string, value, low, high int64) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s is %d, accepted are %d to %d", name, value, low, high))
		}
	}
	between("BatchSize", int64(s.BatchSize), 1, 10_000)
	between("Window in ms", s.Window.Milliseconds(), 0, 300_000)
	between("Tumbling in s", int64(s.Tumbling/time.Second), 0, 900)
	between("Factor", int64(s.Factor), 1, 10)
	between("MaxRetries", int64(s.MaxRetries), -1, 10_000)
	if s.MaxAge >= 0 {
		between("MaxAge in s", int64(s.MaxAge/time.Second), 60, 604_800)
	}
	return errors.Join(problems...)
}

func (s Settings) retryDelay(failures int) int64 {
	return min(s.RetryDelay<<min(failures-1, 20), maxRetryDelay).Milliseconds()
}
