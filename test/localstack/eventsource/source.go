package eventsource

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/streams/poll"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// pollEvery is the pause after a poll without records (Lambda: 250 ms).
const pollEvery = 20 * time.Millisecond

// maxPollErrors is the number of successive errors after which polling counts as broken.
const maxPollErrors = 20

// poll reads the stream until ctx ends. Drain reports persistent errors.
func (m *Mapping) poll(ctx context.Context) {
	_ = poll.Run(ctx, poll.Options{
		Client: &source{Client: m.cfg.Streams, m: m}, Stream: m.cfg.StreamARN, Every: pollEvery, Invoke: m.take,
		Failed: func(err error) {
			m.update(func() {
				m.read.quiet = 0
				if m.read.errors++; m.read.errors == maxPollErrors {
					m.failure = fmt.Errorf("poll stream %q: %w", m.cfg.StreamARN, err)
				}
			})
		},
	})
}

// source is the client of an emulator's stream. It corrects the differences from AWS, and counts
// the reads.
type source struct {
	*dynamodbstreams.Client
	m      *Mapping
	listed int // shards on the pages read so far
}

// reading is the progress of reading the stream.
type reading struct {
	shards int // listed since the last one ended; 0: not yet
	ended  int // of these
	quiet  int // successive reads without a record
	errors int // successive errors
}

// done reports whether every shard was read after quiet was set to zero, and no records were found.
// One read of each shard may have been under way at that time.
func (r reading) done() bool { return r.shards > 0 && r.quiet >= 2*(r.shards-r.ended) }

// add counts a read of a shard; last means that the shard has ended.
func (r *reading) add(records int, last bool) {
	r.errors = 0
	if r.quiet++; records > 0 || last {
		r.quiet = 0
	}
	if last { // other shards may follow it
		r.shards, r.ended = 0, r.ended+1
	}
}

// DescribeStream counts the shards.
func (s *source) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput,
	opts ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	out, err := s.Client.DescribeStream(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	if in.ExclusiveStartShardId == nil {
		s.listed = 0
	}
	s.listed += len(out.StreamDescription.Shards)
	if out.StreamDescription.LastEvaluatedShardId == nil {
		s.m.update(func() { s.m.read.shards = s.listed })
	}
	return out, nil
}

// GetRecords removes the records of writes that changed nothing, which AWS does not have. It adds
// the identity of the time-to-live service to its deletes, unless the stream has it, and the
// region.
func (s *source) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput,
	opts ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	out, err := s.Client.GetRecords(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	s.m.update(func() { s.m.read.add(len(out.Records), out.NextShardIterator == nil) })
	kept := out.Records[:0]
	for _, r := range out.Records {
		if unchanged(r) {
			continue
		}
		if r.UserIdentity == nil && r.EventName == streams.OperationTypeRemove && s.m.cfg.Expired != nil &&
			s.m.cfg.Expired(r) {
			r.UserIdentity = &streams.Identity{Type: aws.String("Service"),
				PrincipalId: aws.String("dynamodb.amazonaws.com")}
		}
		r.AwsRegion = aws.String(engine.Region)
		kept = append(kept, r)
	}
	out.Records = kept
	return out, nil
}

// unchanged reports whether a record is of a write that changed nothing.
func unchanged(r streams.Record) bool {
	return r.EventName == streams.OperationTypeModify && r.Dynamodb != nil && len(r.Dynamodb.NewImage) > 0 &&
		reflect.DeepEqual(r.Dynamodb.NewImage, r.Dynamodb.OldImage)
}
