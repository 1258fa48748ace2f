package twin

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
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
func (e *expressions) write(operation string) (item.Write, error) {
	p := &parser{names: e.ExpressionAttributeNames, values: e.ExpressionAttributeValues}
	cond, err := p.condition(e.ConditionExpression)
	if err != nil {
		return nil, err
	}
	key := item.KeyOf(item.Item(e.Key))
	switch operation {
	case "UpdateItem":
		u := item.Update{Key: key, If: cond}
		return p.update(u, e.UpdateExpression)
	case "PutItem":
		return item.Put{Item: item.Item(e.Item), If: cond}, nil
	case "DeleteItem":
		return item.Delete{Key: key, If: cond}, nil
	}
	return item.Check{Key: key, If: cond}, nil
}

func (r *request) transaction() (out []item.Write, err error) {
	for _, t := range r.TransactItems {
		var w item.Write
		switch {
		case t.Update != nil:
			w, err = t.Update.write("UpdateItem")
		case t.Put != nil:
			w, err = t.Put.write("PutItem")
		case t.Delete != nil:
			w, err = t.Delete.write("DeleteItem")
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
	q := item.Query{Index: r.IndexName, Consistent: r.ConsistentRead, Limit: r.Limit,
		After: item.Item(r.ExclusiveStartKey), Descending: r.ScanIndexForward != nil && !*r.ScanIndexForward}
	text := func(alias string) string {
		if v, ok := r.ExpressionAttributeValues[alias].(*types.AttributeValueMemberS); ok {
			return v.Value
		}
		return ""
	}
	q.PK, q.Prefix, q.From, q.To = text(":p"), text(":b"), text(":f"), text(":t")
	if want := q.Input(""); *want.KeyConditionExpression != r.KeyConditionExpression {
		return q, invalid("key condition %q is none of ours", r.KeyConditionExpression)
	}
	return q, nil
}
