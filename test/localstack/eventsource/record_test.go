package eventsource

import (
	"encoding/json"
	"testing"

	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// All types are as Lambda has them, and always in the same order.
func TestImagesAreDynamoDBJSON(t *testing.T) {
	const want = `{"b":{"B":"AQ=="},"bool":{"BOOL":true},"bs":{"BS":["AQ=="]},"l":{"L":[{"N":"1"}]},` +
		`"m":{"M":{"a":{"S":"\u003c"},"z":{"M":{}}}},"n":{"N":"1.50"},"ns":{"NS":["1","2"]},"null":{"NULL":true},` +
		`"ss":{"SS":["x"]}}`
	in := map[string]streams.AttributeValue{
		"b": &streams.AttributeValueMemberB{Value: []byte{1}}, "bool": &streams.AttributeValueMemberBOOL{Value: true},
		"bs": &streams.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"l":  &streams.AttributeValueMemberL{Value: []streams.AttributeValue{&streams.AttributeValueMemberN{Value: "1"}}},
		"m": &streams.AttributeValueMemberM{Value: map[string]streams.AttributeValue{
			"z": &streams.AttributeValueMemberM{Value: map[string]streams.AttributeValue{}},
			"a": &streams.AttributeValueMemberS{Value: "<"}}},
		"n":    &streams.AttributeValueMemberN{Value: "1.50"},
		"ns":   &streams.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"null": &streams.AttributeValueMemberNULL{Value: true}, "ss": &streams.AttributeValueMemberSS{Value: []string{"x"}},
	}
	it, err := imageOf(in)
	check.Must(t, err)
	if got, err := json.Marshal(it); err != nil || string(got) != want {
		t.Errorf("%s\n%v, want\n%s", got, err, want)
	}
	if none, err := imageOf(nil); none != nil || err != nil {
		t.Errorf("no image became %v, %v", none, err)
	}
}
