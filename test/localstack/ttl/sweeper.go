// Package ttl deletes expired items the way DynamoDB's time-to-live service
// does, and knows afterwards which deletes were its own.
//
// The emulators do not sweep, or not in a table with indexes, and never write
// the service's identity into the stream. The sweeper deletes with a plain
// conditional DeleteItem; the event source mapping asks Deleted about each
// REMOVE record and adds the identity that AWS would have written.
package ttl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/internal/avjson"
)

// Sweeper sweeps one table. Make one with New; it is safe for concurrent use.
type Sweeper struct {
	db        *dynamodb.Client
	table     string
	attribute string
	keys      []string

	mu      sync.Mutex
	deletes map[string]*attempt // by key and expiry, so a later item under the same key is another
}

// attempt is a delete by the sweeper. settled is closed when it is known
// whether the item was deleted by it.
type attempt struct {
	settled chan struct{}
	deleted bool
}

// New returns a sweeper for a table. Items expire by the number in its time-to-live attribute, epoch
// seconds; others never do.
func New(db *dynamodb.Client, of limitertable.Description) *Sweeper {
	s := &Sweeper{db: db, table: of.Name, attribute: of.Spec.TTLAttribute, deletes: map[string]*attempt{}}
	for _, k := range of.Spec.KeySchema {
		s.keys = append(s.keys, aws.ToString(k.AttributeName))
	}
	return s
}

// Sweep deletes every item that expired before now, in epoch ms, and returns
// how many it deleted. Pass a later instant to pretend that time went by. An
// item that somebody changes or deletes between the scan and the delete is
// left alone.
func (s *Sweeper) Sweep(ctx context.Context, now int64) (int, error) {
	pages := dynamodb.NewScanPaginator(s.db, &dynamodb.ScanInput{
		TableName:                aws.String(s.table),
		ConsistentRead:           aws.Bool(true),
		FilterExpression:         aws.String("#ttl < :now AND attribute_type(#ttl, :number)"),
		ExpressionAttributeNames: map[string]string{"#ttl": s.attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":now": number(now / 1000),
			":number": &types.AttributeValueMemberS{Value: "N"}},
	})
	swept := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return swept, fmt.Errorf("scan table %q: %w", s.table, err)
		}
		for _, item := range page.Items {
			deleted, err := s.remove(ctx, item)
			if err != nil {
				return swept, fmt.Errorf("delete expired item of table %q: %w", s.table, err)
			}
			if deleted {
				swept++
			}
		}
	}
	return swept, nil
}

// remove deletes the item if it is still as it was scanned.
func (s *Sweeper) remove(ctx context.Context, item map[string]types.AttributeValue) (bool, error) {
	a := s.begin(avjson.FromTable(item))
	defer close(a.settled)
	key := map[string]types.AttributeValue{}
	for _, name := range s.keys {
		key[name] = item[name]
	}
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                 aws.String(s.table),
		Key:                       key,
		ConditionExpression:       aws.String("#ttl = :seen"),
		ExpressionAttributeNames:  map[string]string{"#ttl": s.attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":seen": item[s.attribute]},
	}, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if _, lost := errors.AsType[*types.ConditionalCheckFailedException](err); lost {
		return false, nil
	}
	a.deleted = err == nil
	return a.deleted, err
}

func (s *Sweeper) begin(item avjson.Item) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &attempt{settled: make(chan struct{})}
	s.deletes[s.identity(item)] = a
	return a
}

// Deleted reports whether the REMOVE record is of a delete by this sweeper. It waits while the
// delete is under way. Of two items of one key that expire in the same second, one swept and
// another deleted by hand, it cannot distinguish the records.
func (s *Sweeper) Deleted(ctx context.Context, r streams.Record) bool {
	if r.EventName != streams.OperationTypeRemove || r.Dynamodb == nil {
		return false
	}
	s.mu.Lock()
	a := s.deletes[s.identity(avjson.FromStream(r.Dynamodb.OldImage))]
	s.mu.Unlock()
	if a == nil {
		return false
	}
	select {
	case <-a.settled:
		return a.deleted
	case <-ctx.Done():
		return false
	}
}

// identity is the key and the expiry of an item. The rest of it would not do:
// scan and stream need not render the same item in the same way.
func (s *Sweeper) identity(item avjson.Item) string {
	known := avjson.Item{s.attribute: item[s.attribute]}
	for _, name := range s.keys {
		known[name] = item[name]
	}
	text, err := json.Marshal(known)
	if err != nil {
		panic(fmt.Sprintf("bug: item: %v", err))
	}
	return string(text)
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
