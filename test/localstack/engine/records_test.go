package engine

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// An empty map stays one in the stream, anywhere in the item.
func TestRecordsCarryEmptyMaps(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := ForTest(t, kind)
			table := e.Table(t).Name
			empty := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}}
			item := map[string]types.AttributeValue{
				"PK": &types.AttributeValueMemberS{Value: "a"},
				"SK": &types.AttributeValueMemberS{Value: "a"}, "top": empty,
				"map":  &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"in": empty}},
				"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{empty}},
			}
			check.Must(t, check.Err(e.DynamoDB().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table,
				Item: item})))
			image := firstImage(t, e, table)
			in := image["map"].(*streams.AttributeValueMemberM).Value["in"]
			first := image["list"].(*streams.AttributeValueMemberL).Value[0]
			for where, v := range map[string]streams.AttributeValue{"top": image["top"], "map": in, "list": first} {
				if m, ok := v.(*streams.AttributeValueMemberM); !ok || len(m.Value) != 0 {
					t.Errorf("%s: %T %v, want an empty map", where, v, v)
				}
			}
		})
	}
}

// firstImage returns the new image of the first record of the table's stream.
func firstImage(t *testing.T, e *Engine, table string) map[string]streams.AttributeValue {
	t.Helper()
	described, err := e.DynamoDB().DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	check.Must(t, err)
	client, arn := e.Streams(), described.Table.LatestStreamArn
	stream, err := client.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	check.Must(t, err)
	iterator, err := client.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: arn, ShardId: stream.StreamDescription.Shards[0].ShardId,
		ShardIteratorType: streams.ShardIteratorTypeTrimHorizon,
	})
	check.Must(t, err)
	out, err := client.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: iterator.ShardIterator})
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%v, error %v", out, err)
	}
	if id := aws.ToString(out.Records[0].EventID); id == "" {
		t.Error("the record has no event id")
	}
	return out.Records[0].Dynamodb.NewImage
}
