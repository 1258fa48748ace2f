package eventsource

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	smithytime "github.com/aws/smithy-go/time"
)

// poller reads the shards of the real stream, parents before their children,
// and hands each record to the mapping.
type poller struct {
	m      *Mapping
	shards []*cursor
}

// cursor is the position in one shard.
type cursor struct {
	id       string
	parent   string
	iterator string // "" before the first read and after an iterator expired
	last     string // sequence number read last, "" is none
	ended    bool
}

// pollEvery is the pause after a poll that found nothing (Lambda: 250 ms).
const pollEvery = 20 * time.Millisecond

// Polling gives up after so many errors in a row.
const maxPollErrors = 20

// discoverEvery is how many passes go by between looks for new shards.
const discoverEvery = 50

// shard returns the position in a shard, nil of one that is not known.
func (p *poller) shard(id string) *cursor {
	if i := slices.IndexFunc(p.shards, func(c *cursor) bool { return c.id == id }); i >= 0 {
		return p.shards[i]
	}
	return nil
}

// run polls until ctx ends or errors persist, which Drain then reports.
func (p *poller) run(ctx context.Context) {
	failures := 0
	for pass := 0; ctx.Err() == nil; pass++ {
		found, err := p.pass(ctx, pass)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures++; failures == maxPollErrors {
				p.m.update(func() { p.m.failure = fmt.Errorf("poll stream %q: %w", p.m.cfg.StreamARN, err) })
				return
			}
		case found > 0:
			failures = 0
			continue
		default:
			failures = 0
			p.m.update(func() { p.m.passes++ })
		}
		_ = smithytime.SleepWithContext(ctx, pollEvery)
	}
}

// pass reads each open shard once and returns how many records there were.
// None means that the end of the stream was seen.
func (p *poller) pass(ctx context.Context, number int) (int, error) {
	if number%discoverEvery == 0 || !slices.ContainsFunc(p.shards, func(c *cursor) bool { return !c.ended }) {
		if err := p.discover(ctx); err != nil {
			return 0, err
		}
	}
	total := 0
	for _, c := range p.shards {
		if parent := p.shard(c.parent); c.ended || parent != nil && !parent.ended {
			continue
		}
		n, err := p.read(ctx, c)
		if err != nil {
			return total, err
		}
		if c.ended {
			n++ // its children may hold more
		}
		total += n
	}
	return total, nil
}

// discover adds shards that are new.
func (p *poller) discover(ctx context.Context) error {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: aws.String(p.m.cfg.StreamARN)}
	for {
		out, err := p.m.cfg.Streams.DescribeStream(ctx, in)
		if err != nil {
			return fmt.Errorf("describe stream %q: %w", p.m.cfg.StreamARN, err)
		}
		for _, shard := range out.StreamDescription.Shards {
			id := aws.ToString(shard.ShardId)
			if p.shard(id) == nil {
				p.shards = append(p.shards, &cursor{id: id, parent: aws.ToString(shard.ParentShardId)})
			}
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
		if in.ExclusiveStartShardId == nil {
			return nil
		}
	}
}

func (p *poller) open(ctx context.Context, c *cursor, at streams.ShardIteratorType) error {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: aws.String(p.m.cfg.StreamARN), ShardId: aws.String(c.id),
		ShardIteratorType: at}
	if at == streams.ShardIteratorTypeAfterSequenceNumber {
		in.SequenceNumber = aws.String(c.last)
	}
	out, err := p.m.cfg.Streams.GetShardIterator(ctx, in)
	if err != nil {
		return fmt.Errorf("iterator of shard %q: %w", c.id, err)
	}
	c.iterator = aws.ToString(out.ShardIterator)
	return nil
}

func (p *poller) read(ctx context.Context, c *cursor) (int, error) {
	if c.iterator == "" {
		at := streams.ShardIteratorTypeTrimHorizon
		if c.last != "" {
			at = streams.ShardIteratorTypeAfterSequenceNumber
		}
		if err := p.open(ctx, c, at); err != nil {
			return 0, err
		}
	}
	out, err := p.m.cfg.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String(c.iterator)})
	if err != nil {
		if _, expired := errors.AsType[*streams.ExpiredIteratorException](err); expired {
			c.iterator = ""
		}
		return 0, fmt.Errorf("records of shard %q: %w", c.id, err)
	}
	records := make([]Record, 0, len(out.Records))
	for _, r := range out.Records {
		if unchanged(r) {
			continue
		}
		expired := p.m.cfg.Expired != nil && r.EventName == streams.OperationTypeRemove && p.m.cfg.Expired(ctx, r)
		record, err := newRecord(r, p.m.cfg.StreamARN, expired)
		if err != nil {
			return 0, fmt.Errorf("record of shard %q: %w", c.id, err)
		}
		records = append(records, record)
	}
	if len(records) > 0 {
		p.m.take(records)
	}
	if n := len(out.Records); n > 0 {
		c.last = aws.ToString(out.Records[n-1].Dynamodb.SequenceNumber)
	}
	c.iterator = aws.ToString(out.NextShardIterator)
	c.ended = c.iterator == ""
	return len(out.Records), nil
}

// unchanged is true for the record of a write that changed nothing. AWS makes
// none, dynoxide does.
func unchanged(r streams.Record) bool {
	return r.EventName == streams.OperationTypeModify && r.Dynamodb != nil && len(r.Dynamodb.NewImage) > 0 &&
		reflect.DeepEqual(r.Dynamodb.NewImage, r.Dynamodb.OldImage)
}
