package eventsource

import "time"

// Batch describes a batch to Inject before its first invocation.
type Batch struct {
	Number  int // from 1, over all lanes
	Records []Record
}

// Trouble is a fault that a test adds to one batch. The zero value is none. Crashes in the middle
// of a batch are injected in the runtime API host.
type Trouble struct {
	LoseAnswer bool // the first invocation runs, but its answer counts as a function error
	// After it is processed, cut or not, the batch is delivered again as it was first, once after
	// each of these times, with other batches in between. Zero means immediately.
	Again   []time.Duration
	Extra   []Record // injected records (RawRecord), delivered with every attempt of the batch
	ExtraAt int      // position of the extra records in the batch; beyond its end means the end
}

// Stats counts the work of a mapping since Start.
type Stats struct {
	Records     int // read from the stream
	Filtered    int // of these, dropped by the filters
	Processed   int // of the others, in a part of a batch that succeeded
	Dropped     int // given up: without retries left, or too old
	Invocations int
	Batches     int // batches formed from new records
	Failures    int // invocations that failed, wholly or partly
	Bisections  int // failures after which the batch was cut
	Retries     int // failures after which the same records were retried
	Duplicates  int // records delivered again on request
	Injected    int // extra records added to batches
	Largest     int // records of the largest batch
}
