package item

import (
	"encoding/json"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A query that DynamoDB would refuse is an error that says why.
func TestInvalidQueriesAreRefused(t *testing.T) {
	for _, c := range []struct {
		q    Query
		want string // part of the error; empty: accepted
	}{
		{Query{PK: "a"}, ""},
		{Query{Index: "GSI1", PK: "a", Prefix: "x"}, ""},
		{Query{PK: "a", From: "a", To: "a", Consistent: true, Limit: 1}, ""},
		{Query{PK: "a", To: "a"}, ""},
		{Query{Index: "GSI9", PK: "a"}, `"GSI9" does not exist`},
		{Query{}, "without a partition key"},
		{Query{PK: "a", Prefix: "x", From: "y"}, "both a prefix and a range"},
		{Query{PK: "a", Prefix: "x", To: "y"}, "both a prefix and a range"},
		{Query{PK: "a", From: "b", To: "a"}, `query from "b" to "a": the bounds are in the wrong order`},
		{Query{Index: "GSI1", PK: "a", Consistent: true}, "consistent query of an index"},
		{Query{PK: "a", Limit: -1}, "limit -1"},
	} {
		check.Says(t, c.q.Validate(), c.want, "%+v", c.q)
	}
}

// A rendered query has the range of the sort key, the order, the index or consistency, and the
// limit.
func TestQueriesRenderTheirRangeAndOrder(t *testing.T) {
	for _, c := range []struct {
		q         Query
		condition string
		values    string
		index     string // the index; otherwise "consistent" or "eventual"
		limit     int32
	}{
		{Query{PK: "a"}, "#p = :p", `{":p":"a"}`, "eventual", 0},
		{Query{PK: "a", Prefix: "x", Consistent: true}, "#p = :p AND begins_with(#s, :b)", `{":b":"x",":p":"a"}`, "consistent", 0},
		{Query{PK: "a", From: "f", Limit: 7}, "#p = :p AND #s >= :f", `{":f":"f",":p":"a"}`, "eventual", 7},
		{Query{Index: "GSI2", PK: "a", To: "t"}, "#p = :p AND #s <= :t", `{":p":"a",":t":"t"}`, "GSI2", 0},
		{Query{PK: "a", From: "f", To: "t", Descending: true}, "#p = :p AND #s BETWEEN :f AND :t",
			`{":f":"f",":p":"a",":t":"t"}`, "eventual", 0},
	} {
		in := c.q.Input("table")
		values := map[string]string{}
		for name, v := range in.ExpressionAttributeValues {
			values[name] = textOf(v)
		}
		text, _ := json.Marshal(values)
		index, limit := "eventual", int32(0)
		switch {
		case in.IndexName != nil && in.ConsistentRead == nil:
			index = *in.IndexName
		case in.IndexName == nil && in.ConsistentRead != nil && *in.ConsistentRead:
			index = "consistent"
		}
		if in.Limit != nil {
			limit = *in.Limit
		}
		if *in.TableName != "table" || *in.KeyConditionExpression != c.condition || string(text) != c.values ||
			index != c.index || limit != c.limit || *in.ScanIndexForward == c.q.Descending {
			t.Errorf("%+v: %s of %s, %s, at most %d", c.q, *in.KeyConditionExpression, text, index, limit)
		}
		pk, sk := in.ExpressionAttributeNames["#p"], in.ExpressionAttributeNames["#s"]
		bound := c.condition != "#p = :p"
		if pk != c.q.Index+"PK" || bound && sk != c.q.Index+"SK" || !bound && sk != "" {
			t.Errorf("%+v: by %q and %q", c.q, pk, sk)
		}
	}
}
