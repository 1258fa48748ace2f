package memdynamo

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Client is the table as a client of the AWS SDK. It accepts the requests that internal/item
// renders, and answers with the types and errors of the SDK. It does not retry, and ignores
// options. DB.Client returns one.
type Client struct{ db *DB }

// Client returns the table's client. It ignores the table's name in requests.
func (db *DB) Client() *Client { return &Client{db} }

type options = func(*dynamodb.Options)

// answer returns the output of a call, or its error as the SDK's.
func answer[T any](out *T, err error) (*T, error) {
	if err != nil {
		return nil, apiError(err)
	}
	return out, nil
}

// write performs one write.
func (c *Client) write(ctx context.Context, t types.TransactWriteItem) (item.Item, error) {
	w, err := parseWrite(t)
	if err != nil {
		return nil, err
	}
	return c.db.Write(ctx, w)
}

// UpdateItem performs an update.
func (c *Client) UpdateItem(
	ctx context.Context, in *dynamodb.UpdateItemInput, _ ...options,
) (*dynamodb.UpdateItemOutput, error) {
	after, err := c.write(ctx, types.TransactWriteItem{Update: &types.Update{Key: in.Key,
		UpdateExpression: in.UpdateExpression, ConditionExpression: in.ConditionExpression,
		ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues}})
	return answer(&dynamodb.UpdateItemOutput{Attributes: after}, err)
}

// PutItem performs a put.
func (c *Client) PutItem(
	ctx context.Context, in *dynamodb.PutItemInput, _ ...options,
) (*dynamodb.PutItemOutput, error) {
	_, err := c.write(ctx, types.TransactWriteItem{Put: &types.Put{Item: in.Item,
		ConditionExpression:      in.ConditionExpression,
		ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues}})
	return answer(&dynamodb.PutItemOutput{}, err)
}

// DeleteItem performs a delete.
func (c *Client) DeleteItem(
	ctx context.Context, in *dynamodb.DeleteItemInput, _ ...options,
) (*dynamodb.DeleteItemOutput, error) {
	_, err := c.write(ctx, types.TransactWriteItem{Delete: &types.Delete{Key: in.Key,
		ConditionExpression:      in.ConditionExpression,
		ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues}})
	return answer(&dynamodb.DeleteItemOutput{}, err)
}

// TransactWriteItems performs all writes or none.
func (c *Client) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...options,
) (*dynamodb.TransactWriteItemsOutput, error) {
	var writes []item.Write
	for _, t := range in.TransactItems {
		w, err := parseWrite(t)
		if err != nil {
			return nil, apiError(err)
		}
		writes = append(writes, w)
	}
	return answer(&dynamodb.TransactWriteItemsOutput{}, c.db.Transact(ctx, aws.ToString(in.ClientRequestToken), writes))
}

// BatchGetItem returns the items at keys.
func (c *Client) BatchGetItem(
	ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...options,
) (*dynamodb.BatchGetItemOutput, error) {
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]item.Item{}}
	for table, asked := range in.RequestItems {
		var keys []item.Key
		for _, k := range asked.Keys {
			keys = append(keys, item.KeyOf(k))
		}
		items, err := c.db.Read(ctx, aws.ToBool(asked.ConsistentRead), keys...)
		if err != nil {
			return nil, apiError(err)
		}
		for _, it := range items {
			if it != nil {
				out.Responses[table] = append(out.Responses[table], it)
			}
		}
	}
	return out, nil
}

// Query returns one page.
func (c *Client) Query(
	ctx context.Context, in *dynamodb.QueryInput, _ ...options,
) (*dynamodb.QueryOutput, error) {
	q, err := parseQuery(in)
	if err != nil {
		return nil, apiError(err)
	}
	page, err := c.db.List(ctx, q)
	n := int32(len(page.Items))
	return answer(&dynamodb.QueryOutput{Items: page.Items, LastEvaluatedKey: page.Next, Count: n, ScannedCount: n}, err)
}

// BatchWriteItem deletes items; it cannot put any.
func (c *Client) BatchWriteItem(
	ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...options,
) (*dynamodb.BatchWriteItemOutput, error) {
	var keys []item.Key
	for _, all := range in.RequestItems {
		for _, r := range all {
			if r.DeleteRequest == nil {
				return nil, apiError(invalid("only deletes are served in a batch"))
			}
			keys = append(keys, item.KeyOf(r.DeleteRequest.Key))
		}
	}
	return answer(&dynamodb.BatchWriteItemOutput{}, c.db.Remove(ctx, keys...))
}

// apiError converts a store error to an SDK error, which package store classifies as the same error
// again.
func apiError(err error) error {
	if refused, ok := errors.AsType[*store.Refused](err); ok {
		return &types.ConditionalCheckFailedException{Message: aws.String(err.Error()), Item: refused.Old}
	}
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		out := &types.TransactionCanceledException{Message: aws.String(err.Error())}
		for _, r := range canceled.Reasons {
			reason := types.CancellationReason{Code: aws.String("None"), Item: r.Old}
			if r.Refused {
				reason.Code = aws.String("ConditionalCheckFailed")
			}
			out.CancellationReasons = append(out.CancellationReasons, reason)
		}
		return out
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api
	}
	said := func(code string) error { return &smithy.GenericAPIError{Code: code, Message: err.Error()} }
	switch kind := store.KindOf(err); {
	case kind == store.Throttled:
		return said("ProvisionedThroughputExceededException")
	case kind == store.Conflict:
		return said("TransactionConflictException")
	case kind == store.Setup, errors.Is(err, errInvalid):
		return said("ValidationException")
	case kind == store.Unavailable: // like an unreachable host
		return &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return fmt.Errorf("answer lost: %w", err)
}
