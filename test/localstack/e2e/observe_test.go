package e2e

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// change is one stream record of a bucket shard. old is nil for an INSERT.
type change struct {
	sequence string
	created  int64 // epoch ms
	old, new *table.Shard
}

// observation is everything that is known after a run: every change of a bucket in stream order,
// the snapshots, and the clients' knowledge.
type observation struct {
	changes   []change
	snapshots []ledger.Snapshot
	book      *clients.Book
	namespace string
	tolerance tolerance
}

// observe reads the stream from its beginning, and the table.
func (r *rig) observe(l *clients.Book) *observation {
	r.t.Helper()
	o := &observation{book: l, namespace: r.ns(), tolerance: usual}
	for _, rec := range r.stream() {
		if c, ok := r.changed(rec); ok {
			o.changes = append(o.changes, c)
		}
	}
	for _, it := range r.items() {
		if ledger.WindowOf(it) != "" {
			s, err := ledger.DecodeSnapshot(it)
			check.Must(r.t, err)
			o.snapshots = append(o.snapshots, s)
		}
	}
	return o
}

// items reads the whole table.
func (r *rig) items() []item.Item {
	r.t.Helper()
	all, err := r.Engine.Items(r.t.Context(), r.Table)
	check.Must(r.t, err)
	return all
}

// stream reads all records of the table's stream.
func (r *rig) stream() (all []streams.Record) {
	r.t.Helper()
	client := r.Engine.Streams()
	var last *string
	for {
		d, err := client.DescribeStream(r.t.Context(),
			&dynamodbstreams.DescribeStreamInput{StreamArn: aws.String(r.Stream), ExclusiveStartShardId: last})
		check.Must(r.t, err)
		for _, s := range d.StreamDescription.Shards {
			all = append(all, r.streamShard(client, s.ShardId)...)
		}
		if last = d.StreamDescription.LastEvaluatedShardId; last == nil {
			return all
		}
	}
}

func (r *rig) streamShard(client *dynamodbstreams.Client, id *string) (all []streams.Record) {
	at, err := client.GetShardIterator(r.t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: aws.String(r.Stream), ShardId: id, ShardIteratorType: streams.ShardIteratorTypeTrimHorizon})
	check.Must(r.t, err)
	for next, empty := at.ShardIterator, 0; next != nil && empty < 2; {
		page, err := client.GetRecords(r.t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: next})
		check.Must(r.t, err)
		all, next = append(all, page.Records...), page.NextShardIterator
		if empty++; len(page.Records) > 0 {
			empty = 0
		}
	}
	return all
}

// changed decodes a record of a bucket shard that exists afterwards.
func (r *rig) changed(rec streams.Record) (c change, ok bool) {
	d := rec.Dynamodb
	if sk, is := d.Keys[item.AttrSK].(*streams.AttributeValueMemberS); !is || sk.Value != layout.SKBucketState ||
		d.NewImage == nil {
		return c, false
	}
	c = change{sequence: aws.ToString(d.SequenceNumber), created: aws.ToTime(d.ApproximateCreationDateTime).UnixMilli()}
	c.new = r.image(d.NewImage)
	if d.OldImage != nil {
		c.old = r.image(d.OldImage)
	}
	return c, true
}

func (r *rig) image(in map[string]streams.AttributeValue) *table.Shard {
	r.t.Helper()
	it, err := attributevalue.FromDynamoDBStreamsMap(in)
	check.Must(r.t, err)
	b, err := table.DecodeShard(it)
	check.Must(r.t, err)
	return &b
}
