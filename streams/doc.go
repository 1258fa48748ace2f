// Package streams is the aggregator. It reads a table's stream and counts usage in hourly, daily
// and monthly snapshots. It refills buckets before clients need it, splits hot buckets into shards
// and merges cool ones. The stack in infra/cdk deploys it as a function. This package is for a
// Lambda function of your own, or for a process that polls the stream (package streams/poll):
//
//	agg, err := streams.New(streams.Options{DynamoDB: dynamodb.NewFromConfig(cfg), Table: "limits"})
//	…
//	lambda.Start(agg)
//
// # Input
//
// One call of [Aggregator.Invoke] is one batch: the JSON that Lambda's event source mapping sends,
// and whose form is AWS's (events.DynamoDBEvent of github.com/aws/aws-lambda-go). The stream must
// have NEW_AND_OLD_IMAGES. Records whose sort key is not #STATE are ignored, so a filter should
// keep them away; all others are needed. Records of one item must come in order, as in a shard of
// the stream. Batches of different shards may be handled at the same time, by one Aggregator or by
// several.
//
// A function needs ReportBatchItemFailures on its event source mapping. With a
// tumbling window usage is folded for its length, which saves most of the writes;
// without one it is written with every batch.
//
// One aggregator at a time should read a stream: a second one counts nothing
// twice, but pays for every write again that is refused.
//
// # Guarantees
//
// Usage is exact. A batch that is delivered again, whole or in parts, after a crash at any write,
// counts nothing twice. The usage in a lost batch is counted with the next record of the same
// bucket. Usage that DynamoDB can never store is not counted, but logged: for example of a bucket
// with 400 limits, or in a snapshot where another program has stored a text as a count. Refills,
// splits and merges are conditional writes that are harmless twice. If one fails, clients go on
// without it, and the bucket's next record starts it again. A malformed record is kept with
// [Options.Keep] and skipped, so it holds nothing up.
//
// When an entity has spent 50, 80 or 100 percent of a quota ([Options.Thresholds]), it is reported once in
// the period: by an alert ([Options.Alert]), by a line "quota threshold" of the log, and by a record in the
// table. Alert and line may come again after a crash; the record does not.
//
// # Rights
//
// dynamodb:UpdateItem, PutItem, DeleteItem, ConditionCheckItem, BatchGetItem and
// Query on the table.
package streams
