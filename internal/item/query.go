package item

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Query selects the items of one partition, of the table or of an index, in order of their sort
// keys.
type Query struct {
	Index string // empty: the table itself
	PK    string // value of the partition key
	// Prefix is the beginning of the sort key. From and To bound it instead, inclusively. Empty
	// ones have no effect.
	Prefix, From, To string
	Descending       bool // from the highest sort key down
	Consistent       bool // includes every completed write; for the table only
	Limit            int  // items per page; 0: as many as fit in a response
	After            Item // [Page.Next] of the previous page; nil: from the start
}

// Page is one answer to a query.
type Page struct {
	Items []Item
	Next  Item // continues the query; nil: there are no more items
}

// keyAttrs returns the names of the partition and the sort key queried.
func (q Query) keyAttrs() (pk, sk string) {
	if q.Index == "" {
		return AttrPK, AttrSK
	}
	return q.Index + AttrPK, q.Index + AttrSK
}

// Validate returns an error for a query that DynamoDB refuses.
func (q Query) Validate() error {
	pk, sk := q.keyAttrs()
	switch {
	case !IsKeyAttr(pk) || !IsKeyAttr(sk):
		return fmt.Errorf("index %q does not exist", q.Index)
	case q.PK == "":
		return errors.New("query without a partition key")
	case q.Prefix != "" && (q.From != "" || q.To != ""):
		return errors.New("query with both a prefix and a range")
	case q.From != "" && q.To != "" && q.From > q.To:
		return fmt.Errorf("query from %q to %q: the bounds are in the wrong order", q.From, q.To)
	case q.Consistent && q.Index != "":
		return errors.New("consistent query of an index")
	case q.Limit < 0:
		return fmt.Errorf("query limit %d, want 0 or more", q.Limit)
	}
	return nil
}

// Input renders the query for the API.
func (q Query) Input(tableName string) *dynamodb.QueryInput {
	pk, sk := q.keyAttrs()
	in := &dynamodb.QueryInput{
		TableName:                 aws.String(tableName),
		ExpressionAttributeNames:  map[string]string{"#p": pk},
		ExpressionAttributeValues: Item{":p": S(q.PK)},
		ScanIndexForward:          aws.Bool(!q.Descending),
		ExclusiveStartKey:         q.After,
	}
	if q.Index != "" {
		in.IndexName = aws.String(q.Index)
	} else {
		in.ConsistentRead = aws.Bool(q.Consistent)
	}
	if q.Limit > 0 {
		in.Limit = aws.Int32(int32(q.Limit))
	}
	cond := "#p = :p"
	bound := func(text, name, value string) {
		if value != "" {
			in.ExpressionAttributeNames["#s"] = sk
			in.ExpressionAttributeValues[name] = S(value)
			cond += " AND " + text
		}
	}
	switch {
	case q.From != "" && q.To != "":
		bound("#s BETWEEN :f AND :t", ":f", q.From)
		in.ExpressionAttributeValues[":t"] = S(q.To)
	default:
		bound("begins_with(#s, :b)", ":b", q.Prefix)
		bound("#s >= :f", ":f", q.From)
		bound("#s <= :t", ":t", q.To)
	}
	in.KeyConditionExpression = &cond
	return in
}
