package poll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// Client lists the methods of a client that [Run] needs; *dynamodbstreams.Client of the AWS SDK for
// Go v2 has them.
type Client interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// Options are the settings of [Run]. Client, Stream and Invoke are required.
type Options struct {
	Client Client
	Stream string // the ARN, LatestStreamArn of the table
	// Invoke handles a batch and answers like a Lambda function: it is Invoke of a
	// streams.Aggregator. It is called for several shards at once.
	Invoke func(ctx context.Context, payload []byte) ([]byte, error)
	// From skips the records that were written before this second: another aggregator, such as the
	// Python client's, has counted them. Use the same value after each start of the process. Zero:
	// nothing is skipped.
	From time.Time
	// Every is the pause after a round without records, or with an error. Default 1s. DynamoDB
	// allows five reads of a shard per second.
	Every time.Duration
	// Timeout bounds one batch, and each read of the stream. Default 1m.
	Timeout time.Duration
	// Failed is called with each error; the call that failed is tried again. Nil: errors are
	// dropped.
	Failed func(error)
}

// shardsEvery is the longest time for which new shards may go unnoticed; the successors of a shard
// that ends are listed at once.
const shardsEvery = 10 * time.Second

// Run reads the stream until ctx is done, and then returns the error of ctx. A batch that is being
// handled also ends with ctx.
func Run(ctx context.Context, o Options) error {
	if o.Client == nil || o.Stream == "" || o.Invoke == nil {
		return errors.New("poll: Client, Stream and Invoke are required")
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	r := reader{Options: o, shards: map[string]*streamShard{}}
	for {
		read := r.round(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if read {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.Every):
		}
	}
}

// reader reads the shards of the stream.
type reader struct {
	Options
	shards map[string]*streamShard
	listed time.Time // zero: list them now
}

type streamShard struct {
	id, parent string
	iterator   *string // nil: it must be opened
	resume     string  // sequence number at which to open it; empty: its oldest record
	after      bool    // open it after resume
	ended      bool    // everything is read
}

// round reads once from every shard whose parent is read to its end, or gone. It reports whether
// there may be more immediately.
func (r *reader) round(ctx context.Context) (more bool) {
	if time.Since(r.listed) > shardsEvery {
		if err := r.list(ctx); err != nil {
			if ctx.Err() == nil {
				r.Failed(err)
			}
			return false
		}
		r.listed = time.Now()
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := false
	var due []*streamShard
	for _, s := range r.shards {
		if parent := r.shards[s.parent]; !s.ended && (parent == nil || parent.ended) {
			due = append(due, s)
		}
	}
	for _, s := range due {
		all.Go(func() {
			n, err := r.read(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && ctx.Err() == nil {
				r.Failed(fmt.Errorf("shard %s: %w", s.id, err))
			}
			if s.ended {
				r.listed = time.Time{} // it may have successors
			}
			failed = failed || err != nil
			more = more || n > 0 || s.ended
		})
	}
	all.Wait()
	return more && !failed
}

// list adds new shards and removes those that are gone.
func (r *reader) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	known := r.shards
	shards := map[string]*streamShard{}
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: aws.String(r.Stream)}
	for {
		out, err := r.Client.DescribeStream(ctx, in)
		if err != nil {
			return fmt.Errorf("list the shards of %s: %w", r.Stream, err)
		}
		for _, s := range out.StreamDescription.Shards {
			id := aws.ToString(s.ShardId)
			if shards[id] = known[id]; shards[id] == nil {
				shards[id] = &streamShard{id: id, parent: aws.ToString(s.ParentShardId)}
			}
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			r.shards = shards
			return nil
		}
	}
}

// read reads once from a shard and delivers the records.
func (r *reader) read(ctx context.Context, s *streamShard) (records int, err error) {
	call, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if s.iterator == nil {
		if s.iterator, err = r.open(call, s); err != nil {
			return 0, err
		}
	}
	out, err := r.Client.GetRecords(call, &dynamodbstreams.GetRecordsInput{ShardIterator: s.iterator})
	if err != nil {
		s.iterator = nil // it may have expired
		return 0, fmt.Errorf("read: %w", err)
	}
	n := len(out.Records)
	if due := r.due(out.Records); len(due) > 0 {
		if err := r.deliver(ctx, s, due); err != nil {
			s.iterator = nil
			return len(due), err
		}
	}
	s.iterator, s.ended = out.NextShardIterator, out.NextShardIterator == nil
	return n, nil
}

// due drops the records from before From. Streams date records to the second.
func (r *reader) due(records []types.Record) []types.Record {
	from := r.From.Truncate(time.Second)
	return slices.DeleteFunc(records, func(rec types.Record) bool {
		return rec.Dynamodb != nil && rec.Dynamodb.ApproximateCreationDateTime != nil &&
			rec.Dynamodb.ApproximateCreationDateTime.Before(from)
	})
}

func (r *reader) open(ctx context.Context, s *streamShard) (*string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: aws.String(r.Stream), ShardId: aws.String(s.id), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	}
	if s.resume != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAtSequenceNumber, aws.String(s.resume)
		if s.after {
			in.ShardIteratorType = types.ShardIteratorTypeAfterSequenceNumber
		}
	}
	out, err := r.Client.GetShardIterator(ctx, in)
	if _, gone := errors.AsType[*types.TrimmedDataAccessException](err); gone {
		s.resume = "" // records older than a day are gone: continue with the oldest one left
	}
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return out.ShardIterator, nil
}

// deliver delivers records, and records where to resume: after the last one, or at the first one
// that is not done, which is an error.
func (r *reader) deliver(ctx context.Context, s *streamShard, records []types.Record) error {
	payload, err := payloadOf(r.Stream, records)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	answer, err := r.Invoke(ctx, payload)
	if err != nil {
		return fmt.Errorf("invoke: %w", err)
	}
	first, err := undone(answer, records)
	if err != nil {
		return err
	}
	if first == len(records) {
		s.resume, s.after = sequence(records[first-1]), true
		return nil
	}
	s.resume, s.after = sequence(records[first]), false
	return fmt.Errorf("not done from record %q on", s.resume)
}
