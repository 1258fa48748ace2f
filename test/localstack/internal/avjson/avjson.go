// Package avjson renders attribute values as DynamoDB JSON, from the types of
// the table API and from those of the streams API.
package avjson

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// Value is one attribute in a form that encoding/json renders as DynamoDB
// JSON, for example {"N":"5"}. Keys come out sorted.
type Value map[string]any

// Item is a whole item or key.
type Item map[string]Value

// FromTable converts an item of the table API; nil stays nil. It panics on a
// type the SDK does not document.
func FromTable(in map[string]types.AttributeValue) Item {
	if in == nil {
		return nil
	}
	out := make(Item, len(in))
	for name, v := range in {
		out[name] = table(v)
	}
	return out
}

// FromStream converts an image or key of the streams API; nil stays nil. It
// panics on a type the SDK does not document.
func FromStream(in map[string]streams.AttributeValue) Item {
	if in == nil {
		return nil
	}
	out := make(Item, len(in))
	for name, v := range in {
		out[name] = stream(v)
	}
	return out
}

func table(v types.AttributeValue) Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return Value{"S": v.Value}
	case *types.AttributeValueMemberN:
		return Value{"N": v.Value}
	case *types.AttributeValueMemberB:
		return Value{"B": v.Value}
	case *types.AttributeValueMemberBOOL:
		return Value{"BOOL": v.Value}
	case *types.AttributeValueMemberNULL:
		return Value{"NULL": v.Value}
	case *types.AttributeValueMemberSS:
		return Value{"SS": v.Value}
	case *types.AttributeValueMemberNS:
		return Value{"NS": v.Value}
	case *types.AttributeValueMemberBS:
		return Value{"BS": v.Value}
	case *types.AttributeValueMemberM:
		return Value{"M": FromTable(v.Value)}
	case *types.AttributeValueMemberL:
		list := make([]Value, len(v.Value))
		for i, e := range v.Value {
			list[i] = table(e)
		}
		return Value{"L": list}
	}
	panic(fmt.Sprintf("bug: attribute value of type %T", v))
}

func stream(v streams.AttributeValue) Value {
	switch v := v.(type) {
	case *streams.AttributeValueMemberS:
		return Value{"S": v.Value}
	case *streams.AttributeValueMemberN:
		return Value{"N": v.Value}
	case *streams.AttributeValueMemberB:
		return Value{"B": v.Value}
	case *streams.AttributeValueMemberBOOL:
		return Value{"BOOL": v.Value}
	case *streams.AttributeValueMemberNULL:
		return Value{"NULL": v.Value}
	case *streams.AttributeValueMemberSS:
		return Value{"SS": v.Value}
	case *streams.AttributeValueMemberNS:
		return Value{"NS": v.Value}
	case *streams.AttributeValueMemberBS:
		return Value{"BS": v.Value}
	case *streams.AttributeValueMemberM:
		return Value{"M": FromStream(v.Value)}
	case *streams.AttributeValueMemberL:
		list := make([]Value, len(v.Value))
		for i, e := range v.Value {
			list[i] = stream(e)
		}
		return Value{"L": list}
	}
	panic(fmt.Sprintf("bug: attribute value of type %T", v))
}
