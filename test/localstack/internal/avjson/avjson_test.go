package avjson

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// The table and the stream show the same item: it is the same JSON, and always in the
// same order.
func TestItemsOfTableAndStreamAreTheSameJSON(t *testing.T) {
	const want = `{"b":{"B":"AQ=="},"bool":{"BOOL":true},"bs":{"BS":["AQ=="]},"l":{"L":[{"N":"1"}]},` +
		`"m":{"M":{"a":{"S":"\u003c"},"z":{"M":{}}}},"n":{"N":"1.50"},"ns":{"NS":["1","2"]},"null":{"NULL":true},` +
		`"ss":{"SS":["x"]}}`
	table := map[string]types.AttributeValue{
		"b": &types.AttributeValueMemberB{Value: []byte{1}}, "bool": &types.AttributeValueMemberBOOL{Value: true},
		"bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"l":  &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberN{Value: "1"}}},
		"m": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"z": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}},
			"a": &types.AttributeValueMemberS{Value: "<"}}},
		"n": &types.AttributeValueMemberN{Value: "1.50"}, "ns": &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"null": &types.AttributeValueMemberNULL{Value: true}, "ss": &types.AttributeValueMemberSS{Value: []string{"x"}},
	}
	stream := map[string]streams.AttributeValue{
		"b": &streams.AttributeValueMemberB{Value: []byte{1}}, "bool": &streams.AttributeValueMemberBOOL{Value: true},
		"bs": &streams.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"l":  &streams.AttributeValueMemberL{Value: []streams.AttributeValue{&streams.AttributeValueMemberN{Value: "1"}}},
		"m": &streams.AttributeValueMemberM{Value: map[string]streams.AttributeValue{
			"z": &streams.AttributeValueMemberM{Value: map[string]streams.AttributeValue{}},
			"a": &streams.AttributeValueMemberS{Value: "<"}}},
		"n": &streams.AttributeValueMemberN{Value: "1.50"}, "ns": &streams.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"null": &streams.AttributeValueMemberNULL{Value: true}, "ss": &streams.AttributeValueMemberSS{Value: []string{"x"}},
	}
	for name, it := range map[string]Item{"table": FromTable(table), "stream": FromStream(stream)} {
		if got, err := json.Marshal(it); err != nil || string(got) != want {
			t.Errorf("%s:\n%s\n%v, want\n%s", name, got, err, want)
		}
	}
	if FromTable(nil) != nil || FromStream(nil) != nil {
		t.Error("no item became an empty one")
	}
}
