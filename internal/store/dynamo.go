package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// API is the part of the DynamoDB client that is used.
type API interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// Dynamo is the [Store] on a DynamoDB table.
type Dynamo struct {
	Clock // the local clock's offset from DynamoDB's, measured by its answers

	api   API
	table string
}

// NewDynamo returns the store of the named table.
func NewDynamo(api API, tableName string) *Dynamo { return &Dynamo{api: api, table: tableName} }

// once disables the SDK's retries, which would repeat an update that may have been applied (ADD is
// not idempotent).
func once(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	whole(o)
}

// unlessUnreachable keeps the client's own retries, for reads, except after errors that an
// immediate retry cannot change.
func unlessUnreachable(o *dynamodb.Options) {
	whole(o)
	if r := o.Retryer; r != nil {
		o.Retryer = fast{retry.AddWithMaxAttempts(r, r.MaxAttempts()).(aws.RetryerV2)} // supports a plain Retryer too
	}
}

type fast struct{ aws.RetryerV2 }

func (f fast) IsErrorRetryable(err error) bool {
	return !Unreachable(err) && f.RetryerV2.IsErrorRetryable(err)
}

// Write implements [Store].
func (d *Dynamo) Write(ctx context.Context, w item.Write) (item.Item, error) {
	switch w := w.(type) {
	case item.Update:
		out, err := send(ctx, "UpdateItem", func() (*dynamodb.UpdateItemOutput, error) { return d.update(ctx, w) })
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	case item.Put:
		_, err := send(ctx, "PutItem", func() (*dynamodb.PutItemOutput, error) {
			return d.api.PutItem(ctx, w.Input(d.table), once)
		})
		if err != nil {
			return nil, err
		}
		return maps.Clone(w.Item), nil
	case item.Delete:
		_, err := send(ctx, "DeleteItem", func() (*dynamodb.DeleteItemOutput, error) {
			return d.api.DeleteItem(ctx, w.Input(d.table), once)
		})
		return nil, err
	}
	return nil, unsent("Write", fmt.Errorf("%T stands in transactions only", w))
}

// send makes a write call, unless ctx is done before, and classifies its error.
func send[T any](ctx context.Context, op string, call func() (T, error)) (out T, err error) {
	if err := ctx.Err(); err != nil {
		return out, unsent(op, err)
	}
	out, err = signed(ctx, call)
	return out, classify(op, err)
}

// update sends an update, and uses its answer to measure the clock.
func (d *Dynamo) update(ctx context.Context, w item.Update) (*dynamodb.UpdateItemOutput, error) {
	sent := d.reading()
	out, err := d.api.UpdateItem(ctx, w.Input(d.table), once)
	var meta middleware.Metadata
	if err == nil {
		meta = out.ResultMetadata
	}
	d.listen(meta, err, sent)
	return out, err
}

// Transact implements [Store].
func (d *Dynamo) Transact(ctx context.Context, token string, writes []item.Write) error {
	if token == "" || len(token) > item.MaxTokenLength {
		// Without a token, a transaction could not be repeated safely.
		return unsent("TransactWriteItems",
			fmt.Errorf("token %q of %d bytes, 1 to %d are accepted", token, len(token), item.MaxTokenLength))
	}
	_, err := send(ctx, "TransactWriteItems", func() (*dynamodb.TransactWriteItemsOutput, error) {
		return d.api.TransactWriteItems(ctx, item.TransactInput(d.table, token, writes), once)
	})
	return err
}

const readAttempts = 8

// Read implements [Store]. It repeats the request for keys that DynamoDB leaves unprocessed, with
// growing pauses, at most eight times.
func (d *Dynamo) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	unique := make([]item.Item, 0, len(keys))
	index := make(map[item.Key][]int, len(keys))
	for i, k := range keys {
		if index[k] == nil {
			unique = append(unique, k.Item())
		}
		index[k] = append(index[k], i)
	}
	items := make([]item.Item, len(keys))
	ask := map[string]types.KeysAndAttributes{d.table: {Keys: unique, ConsistentRead: &consistent}}
	for try := 0; ; try++ {
		sent := d.reading()
		out, err := signed(ctx, func() (*dynamodb.BatchGetItemOutput, error) {
			return d.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: ask}, unlessUnreachable)
		})
		if err != nil {
			return nil, unread("BatchGetItem", err)
		}
		d.listen(out.ResultMetadata, nil, sent)
		for _, list := range slices.Collect(maps.Values(out.Responses)) {
			for _, it := range list {
				for _, i := range index[item.KeyOf(it)] {
					items[i] = it
				}
			}
		}
		ask = out.UnprocessedKeys
		if len(ask) == 0 {
			return items, nil
		}
		if try+1 == readAttempts {
			return nil, &Failure{Kind: Throttled, Op: "BatchGetItem", Err: errUnprocessed}
		}
		if err := smithytime.SleepWithContext(ctx, Jitter(try, 20*time.Millisecond, time.Second)); err != nil {
			return nil, unsent("BatchGetItem", err)
		}
	}
}

var errUnprocessed = errors.New("some are still unprocessed after all attempts")
