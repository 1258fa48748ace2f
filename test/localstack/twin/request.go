package twin

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/test/localstack/internal/avjson"
)

// object is an item, a key or the values of expressions, in DynamoDB's JSON.
type object item.Item

// UnmarshalJSON implements [json.Unmarshaler].
func (o *object) UnmarshalJSON(text []byte) error {
	it, err := attributevalue.UnmarshalMapJSON(text)
	*o = it
	return err
}

// values returns an item as it is answered.
func values(it item.Item) document {
	out := make(document, len(it))
	for name, v := range avjson.FromTable(it) {
		out[name] = v
	}
	return out
}

func list(items []item.Item) []document {
	out := []document{}
	for _, it := range items {
		out = append(out, values(it))
	}
	return out
}

// expressions are what all writes have.
type expressions struct {
	Key, Item                 object
	UpdateExpression          string
	ConditionExpression       string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues object
}

// request holds what the calls that are served are made of.
type request struct {
	expressions
	ClientRequestToken string
	TransactItems      []struct{ Update, Put, Delete, ConditionCheck *expressions }

	RequestItems map[string]json.RawMessage // by table

	IndexName              string
	KeyConditionExpression string
	ScanIndexForward       *bool
	ConsistentRead         bool
	Limit                  int
	ExclusiveStartKey      object
}

// write returns the write that an operation asks for.
func (e *expressions) write(operation memdb.OpName) (item.Write, error) {
	return memdb.Expressions{
		Key: item.Item(e.Key), Item: item.Item(e.Item), Update: e.UpdateExpression, Condition: e.ConditionExpression,
		Names: e.ExpressionAttributeNames, Values: item.Item(e.ExpressionAttributeValues),
	}.Write(operation)
}

func (r *request) transaction() (out []item.Write, err error) {
	for _, t := range r.TransactItems {
		var w item.Write
		switch {
		case t.Update != nil:
			w, err = t.Update.write(memdb.UpdateItem)
		case t.Put != nil:
			w, err = t.Put.write(memdb.PutItem)
		case t.Delete != nil:
			w, err = t.Delete.write(memdb.DeleteItem)
		case t.ConditionCheck != nil:
			w, err = t.ConditionCheck.write("ConditionCheck")
		}
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// removals returns the keys that a BatchWriteItem deletes; it puts nothing.
func (r *request) removals() (keys []item.Key, err error) {
	for _, raw := range r.RequestItems {
		var asked []struct{ DeleteRequest *struct{ Key object } }
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, invalid("%v", err)
		}
		for _, a := range asked {
			if a.DeleteRequest == nil {
				return nil, invalid("only deletes are served in a batch")
			}
			keys = append(keys, item.KeyOf(item.Item(a.DeleteRequest.Key)))
		}
	}
	return keys, nil
}

func (r *request) query() (item.Query, error) {
	in := &dynamodb.QueryInput{ConsistentRead: &r.ConsistentRead, ScanIndexForward: r.ScanIndexForward,
		ExclusiveStartKey: item.Item(r.ExclusiveStartKey), KeyConditionExpression: &r.KeyConditionExpression,
		ExpressionAttributeValues: item.Item(r.ExpressionAttributeValues)}
	if r.IndexName != "" {
		in.IndexName = &r.IndexName
	}
	if r.Limit > 0 {
		in.Limit = aws.Int32(int32(r.Limit))
	}
	return memdb.ParseQuery(in)
}
