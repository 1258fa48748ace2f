package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// poller gives the records of a stream to a function, as Lambda does: all of a
// shard in their order, and those that it reports as not done once more.
type poller struct {
	client *dynamodbstreams.Client
	stream string
	invoke func(context.Context, []byte) ([]byte, error)

	at map[string]*string // iterators by shard; nil where a shard has ended
}

const (
	pollEvery  = 200 * time.Millisecond
	invokeTime = time.Minute
)

// run polls until ctx is done. What goes wrong is told, and tried again.
func (p *poller) run(ctx context.Context, tell func(error)) {
	p.at = map[string]*string{}
	told := ""
	for ctx.Err() == nil {
		err := p.poll(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			tell(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

func (p *poller) poll(ctx context.Context) error {
	if err := p.findShards(ctx); err != nil {
		return err
	}
	var errs []error
	for shard, iterator := range maps.Clone(p.at) {
		if iterator != nil {
			errs = append(errs, p.deliver(ctx, shard, *iterator))
		}
	}
	return errors.Join(errs...)
}

// findShards opens shards that are not known yet, at their beginning.
func (p *poller) findShards(ctx context.Context) error {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: aws.String(p.stream)}
	for {
		out, err := p.client.DescribeStream(ctx, in)
		if err != nil {
			return fmt.Errorf("describe the stream: %w", err)
		}
		for _, s := range out.StreamDescription.Shards {
			shard := aws.ToString(s.ShardId)
			if _, known := p.at[shard]; known {
				continue
			}
			if err := p.open(ctx, shard, types.ShardIteratorTypeTrimHorizon, nil); err != nil {
				return err
			}
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return nil
		}
	}
}

func (p *poller) open(ctx context.Context, shard string, where types.ShardIteratorType, sequence *string) error {
	out, err := p.client.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
		StreamArn: aws.String(p.stream), ShardId: aws.String(shard), ShardIteratorType: where, SequenceNumber: sequence,
	})
	if err != nil {
		return fmt.Errorf("open shard %s: %w", shard, err)
	}
	p.at[shard] = out.ShardIterator
	return nil
}

// deliver reads what comes next in a shard and gives it to the function. The
// iterator moves on when that is done.
func (p *poller) deliver(ctx context.Context, shard, iterator string) error {
	var wire bytes.Buffer
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String(iterator)}
	out, err := p.client.GetRecords(ctx, in, copyBody(&wire))
	if expired := (&types.ExpiredIteratorException{}); errors.As(err, &expired) {
		delete(p.at, shard) // from its beginning again: nothing is counted twice
		return nil
	}
	if err != nil {
		return fmt.Errorf("read shard %s: %w", shard, err)
	}
	if len(out.Records) == 0 {
		p.at[shard] = out.NextShardIterator
		return nil
	}
	payload, err := payloadOf(wire.Bytes())
	if err != nil {
		return fmt.Errorf("records of shard %s: %w", shard, err)
	}
	ctx, cancel := context.WithTimeout(ctx, invokeTime)
	defer cancel()
	answer, err := p.invoke(ctx, payload)
	if err != nil {
		return err
	}
	var report struct {
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	if err := json.Unmarshal(answer, &report); err != nil {
		return err
	}
	if failed := report.BatchItemFailures; len(failed) > 0 {
		return p.open(ctx, shard, types.ShardIteratorTypeAtSequenceNumber, aws.String(failed[0].ItemIdentifier))
	}
	p.at[shard] = out.NextShardIterator
	return nil
}

// copyBody has a call write the body of its answer to w.
func copyBody(w io.Writer) func(*dynamodbstreams.Options) {
	mw := middleware.DeserializeMiddlewareFunc("CopyBody", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, md, err := next.HandleDeserialize(ctx, in)
		if r, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, w), r.Body}
		}
		return out, md, err
	})
	return func(o *dynamodbstreams.Options) {
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Deserialize.Add(mw, middleware.After)
		})
	}
}

// payloadOf makes what Lambda delivers of what the streams API answers, which
// differ in the form of instants only: the API writes fractions of a second.
func payloadOf(wire []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(wire))
	d.UseNumber()
	var answer struct{ Records []map[string]any }
	if err := d.Decode(&answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Records {
		change, ok := r["dynamodb"].(map[string]any)
		if !ok {
			continue
		}
		if at, ok := change["ApproximateCreationDateTime"].(json.Number); ok {
			seconds, err := at.Float64()
			if err != nil {
				return nil, err
			}
			change["ApproximateCreationDateTime"] = int64(seconds)
		}
	}
	return json.Marshal(answer)
}
