package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/zeroae/zae-limiter-go/internal/archive"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// Objects is the S3 bucket whose objects are replayed. Errors are S3's; each method blocks until
// there is an answer or ctx is done.
type Objects interface {
	// Keys lists the keys with the prefix, in order.
	Keys(ctx context.Context, prefix string) iter.Seq2[string, error]
	Get(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
}

// Functions invokes the functions. Answer is the function's result; an error of the function itself
// is an error. Malformed is how many records the function could not decode, -1 if unknown.
type Functions interface {
	Of(arn string) (Function, bool)
	Invoke(ctx context.Context, f Function, payload []byte) (answer []byte, malformed int, err error)
}

// Replayer replays the objects of one bucket. All fields are required.
type Replayer struct {
	Objects   Objects
	Malformed Function // whose malformed records are in the bucket
	Functions Functions
	Table     Reader
	Windows   []usage.Window // the windows that the aggregator uses
}

// attempts is how often records that a function reports as not done are sent to it again, before
// the object is left for another time.
const attempts = 5

// Outcome is the outcome for an object.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"            // everything was processed; the object is deleted
	Left    Outcome = "left"            // some of it was not processed; the object stays
	Still   Outcome = "still malformed" // no release up to this one can decode it; the object stays
	Strange Outcome = "not understood"  // not an object that can be replayed; it stays
	Looked  Outcome = "looked at"       // nothing was delivered
)

// Result is the result for one object.
type Result struct {
	Key     string
	Batch   Batch
	Usage   Usage // for a batch of the aggregator, before the delivery
	Outcome Outcome
	Err     error // why it was left or cannot be parsed
}

// Keys lists the objects to replay, batches first.
func (r *Replayer) Keys(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, prefix := range []string{BatchPrefix, archive.PrefixMalformed} {
			for key, err := range r.Objects.Keys(ctx, prefix) {
				if !yield(key, err) || err != nil {
					return
				}
			}
		}
	}
}

// Inspect reports the content of an object and what a replay would count. It changes nothing.
func (r *Replayer) Inspect(ctx context.Context, key string) Result {
	res := Result{Key: key, Outcome: Looked}
	body, err := r.Objects.Get(ctx, key)
	if err != nil {
		res.Outcome, res.Err = Left, err
		return res
	}
	if res.Batch, err = Parse(key, body, r.Functions.Of, r.Malformed); err != nil {
		res.Outcome, res.Err = Strange, err
		return res
	}
	if err := undecodable(res.Batch); err != nil {
		res.Outcome, res.Err = Still, err
		return res
	}
	if res.Batch.Function == Aggregator {
		if res.Usage, err = inspect(ctx, r.Table, res.Batch.Payload, r.Windows); err != nil {
			res.Outcome, res.Err = Left, err
		}
	}
	return res
}

// undecodable returns why a malformed record still cannot be decoded, or nil if it can.
func undecodable(b Batch) (err error) {
	switch {
	case !b.Malformed:
	case b.Function == Aggregator:
		var batch stream.Batch
		if batch, err = stream.Decode(b.Payload); len(batch.Malformed) > 0 {
			err = errors.New(batch.Malformed[0].Reason)
		}
	default:
		var batch archive.Batch
		if batch, err = archive.Decode(b.Payload); len(batch.Malformed) > 0 {
			err = errors.New(batch.Malformed[0].Reason)
		}
	}
	return err
}

// Replay delivers an object, and deletes it if everything was processed. Replaying it again, even
// concurrently, counts and archives nothing twice.
func (r *Replayer) Replay(ctx context.Context, key string) Result {
	res := r.Inspect(ctx, key)
	if res.Outcome != Looked {
		return res
	}
	res.Outcome = Left
	if res.Err = r.deliver(ctx, res.Batch); res.Err != nil {
		return res
	}
	if res.Err = r.Objects.Delete(ctx, key); res.Err != nil { // only processed objects are deleted
		return res
	}
	res.Outcome = Done
	return res
}

// deliver sends a batch to its function until nothing is left. If a record is reported as not done,
// it and all later ones are delivered again, like Lambda does.
func (r *Replayer) deliver(ctx context.Context, b Batch) error {
	payload := b.Payload
	var rest string
	for range attempts {
		answer, malformed, err := r.Functions.Invoke(ctx, b.Function, payload)
		if err != nil {
			return fmt.Errorf("invoke the %s: %w", b.Function, err)
		}
		if b.Malformed && malformed != 0 {
			// It was set aside again, possibly under the same key.
			return fmt.Errorf("the deployed %s does not say that it can decode it: deploy this release first", b.Function)
		}
		at, failed, err := resumeAt(answer)
		if err != nil || !failed {
			return err
		}
		if payload, err = from(payload, at); err != nil {
			return err
		}
		rest = at
	}
	return fmt.Errorf("the %s has %d times not done all of it; it goes on at sequence number %q",
		b.Function, attempts, rest)
}

// resumeAt reads a partial batch response.
func resumeAt(answer []byte) (sequence string, failed bool, err error) {
	var response struct {
		BatchItemFailures *[]struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if err := json.Unmarshal(answer, &response); err != nil || response.BatchItemFailures == nil {
		return "", false, errors.Join(fmt.Errorf("answer %.200q is no partial batch response", answer), err)
	}
	if len(*response.BatchItemFailures) == 0 {
		return "", false, nil
	}
	return (*response.BatchItemFailures)[0].ItemIdentifier, true, nil
}

// from returns the payload from the record with a sequence number; all of it if that is empty.
func from(payload []byte, sequence string) ([]byte, error) {
	if sequence == "" {
		return payload, nil
	}
	var p struct{ Records []json.RawMessage }
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	for i, raw := range p.Records {
		var record struct {
			DynamoDB struct{ SequenceNumber string } `json:"dynamodb"`
		}
		if json.Unmarshal(raw, &record) == nil && record.DynamoDB.SequenceNumber == sequence {
			return json.Marshal(map[string]any{"Records": p.Records[i:]})
		}
	}
	return nil, fmt.Errorf("the answer names sequence number %q, which is none of the batch", sequence)
}
