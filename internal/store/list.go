package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Lister is a [Store] that can also find items and remove many. Taking tokens never needs it.
type Lister interface {
	Store
	// List returns one page of the results of a query. Queries of an index are eventually
	// consistent, and return the projected attributes of an item, at least its keys. The
	// implementation may repeat the request.
	List(ctx context.Context, q item.Query) (item.Page, error)
	// Remove deletes the items at 1 to item.MaxRemoveKeys keys, regardless of their contents. An
	// absent item is not an error, so the whole call can be repeated after a failure.
	Remove(ctx context.Context, keys ...item.Key) error
}

// ListAPI is the part of the DynamoDB client that a [Listing] uses.
type ListAPI interface {
	API
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
}

// Listing is the [Lister] on a DynamoDB table.
type Listing struct {
	*Dynamo
	api ListAPI
}

// NewListing returns the store of the named table.
func NewListing(api ListAPI, tableName string) *Listing {
	return &Listing{Dynamo: NewDynamo(api, tableName), api: api}
}

// List implements [Lister].
func (l *Listing) List(ctx context.Context, q item.Query) (item.Page, error) {
	if err := errors.Join(ctx.Err(), q.Validate()); err != nil {
		return item.Page{}, unsent("Query", err)
	}
	out, err := signed(ctx, func() (*dynamodb.QueryOutput, error) { return l.api.Query(ctx, q.Input(l.table), whole) })
	if err != nil {
		return item.Page{}, unread("Query", err)
	}
	page := item.Page{Items: out.Items}
	if len(out.LastEvaluatedKey) > 0 {
		page.Next = out.LastEvaluatedKey
	}
	return page, nil
}

const removeAttempts = 8 // without progress

// Remove implements [Lister]. It sends keys that DynamoDB leaves unprocessed again, with growing
// pauses, at most eight times without progress.
func (l *Listing) Remove(ctx context.Context, keys ...item.Key) error {
	var left []types.WriteRequest
	for _, k := range unique(keys) {
		left = append(left, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: k.Item()}})
	}
	for try := 0; ; try++ {
		out, err := send(ctx, "BatchWriteItem", func() (*dynamodb.BatchWriteItemOutput, error) {
			in := &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{l.table: left}}
			return l.api.BatchWriteItem(ctx, in, whole)
		})
		if err != nil {
			return err
		}
		before := len(left)
		if left = out.UnprocessedItems[l.table]; len(left) == 0 {
			return nil
		}
		if len(left) < before {
			try = 0
		}
		if try+1 == removeAttempts {
			return &Failure{Kind: Throttled, Op: "BatchWriteItem", Err: errUnprocessed}
		}
		_ = smithytime.SleepWithContext(ctx, Jitter(try, 20*time.Millisecond, time.Second)) // the loop checks ctx
	}
}

// unique returns the keys without duplicates, which a request must not have.
func unique(keys []item.Key) []item.Key {
	seen := make(map[item.Key]bool, len(keys))
	return slices.DeleteFunc(slices.Clone(keys), func(k item.Key) bool {
		again := seen[k]
		seen[k] = true
		return again
	})
}
