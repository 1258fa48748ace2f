package eventsource

import "time"

// Batch describes a batch before its first invocation, to the Inject hook.
type Batch struct {
	Number  int // from 1, over all lanes
	Records []Record
}

// Trouble is a fault that a test adds to one batch. The zero value is none. Crashes in the middle
// of a batch are injected at the runtime API host.
type Trouble struct {
	LoseAnswer bool // the first invocation runs, and its answer counts as a function error
	// Once processed, cut or not, the batch as first delivered comes again so much later each, other batches in
	// between. After zero it comes at once.
	Again   []time.Duration
	Extra   []Record // injected records (RawRecord), delivered with every attempt of the batch
	ExtraAt int      // position of the extra records in the batch; past its end is at the end
}

// Stats counts the work of a mapping. All numbers are since Start.
type Stats struct {
	Records     int // read from the stream
	Filtered    int // of the records, dropped by the filters
	Processed   int // of the others, in a part of a batch that succeeded
	Dropped     int // given up: out of retries or too old
	Invocations int
	Batches     int // batches formed from new records
	Failures    int // invocations that failed, wholly or partly
	Bisections  int // failures answered by cutting the batch
	Retries     int // failures answered by a retry of the same records
	Duplicates  int // records delivered again on request
	Injected    int // extra records put into batches
	Largest     int // records of the largest batch
}
