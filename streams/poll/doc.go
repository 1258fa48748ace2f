// Package poll feeds an aggregator from a table's stream without Lambda: in a
// process of your own, or where there is no Lambda.
//
//	agg, err := streams.New(streams.Options{DynamoDB: db, Table: "limits"})
//	…
//	err = poll.Run(ctx, poll.Options{
//		Client: dynamodbstreams.NewFromConfig(cfg), Stream: arn, Invoke: agg.Invoke,
//	})
//
// [Run] reads every shard of the stream from its oldest record, a day back. It reads a shard to its
// end before those that follow it, so that the records of an item come in order. It keeps no
// position. After a start it reads again what an earlier process has read; the aggregator counts
// nothing twice, and that costs a refused write for each snapshot of every batch. What another
// aggregator has counted it would count again: name the instant of the switch in [Options].From.
// One process at a time should read a stream: a second one does no harm, but pays for everything
// again.
//
// A record that the aggregator reports as not done is delivered again until it is done, for as long
// as the stream keeps it. The records behind it in its shard wait. So give the aggregator a Keep
// for malformed records.
//
// It needs dynamodb:DescribeStream, GetShardIterator and GetRecords on the stream.
package poll
