// Package avjson renders attribute values as DynamoDB JSON, from the types of the table API and of
// the streams API.
package avjson

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// Item is a whole item or key in a form that encoding/json renders as DynamoDB JSON, for example
// {"rf":{"N":"5"}}. Names come out sorted, unlike the SDK's.
type Item map[string]any

// FromTable converts an item of the table API; nil stays nil. It panics on a
// type the SDK does not document.
func FromTable(in map[string]types.AttributeValue) (out Item) {
	if in == nil {
		return nil
	}
	text, err := attributevalue.MarshalMapJSON(in)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("bug: item: %v", err))
	}
	return out
}

// FromStream converts an image or key of the streams API; nil stays nil. It
// panics on a type the SDK does not document.
func FromStream(in map[string]streams.AttributeValue) Item {
	if in == nil {
		return nil
	}
	it, err := attributevalue.FromDynamoDBStreamsMap(in)
	if err != nil {
		panic(fmt.Sprintf("bug: item of a stream: %v", err))
	}
	return FromTable(it)
}
