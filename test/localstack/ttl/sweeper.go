// Package ttl deletes expired items like DynamoDB's time-to-live service, and records which deletes
// are its own.
//
// The emulators do not sweep, or not in a table with indexes, and never write the service's
// identity to the stream. The sweeper deletes with a plain conditional DeleteItem. The event source
// mapping calls Deleted for each REMOVE record, and adds the identity that AWS would have written.
package ttl

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Sweeper sweeps one table. New makes one; it is safe for concurrent use.
type Sweeper struct {
	engine    *engine.Engine
	store     store.Store
	table     string
	attribute string

	mu      sync.Mutex // held while a delete is under way
	deleted map[deletion]bool
}

// New returns a sweeper for a table. Items expire by the number in its time-to-live attribute,
// epoch seconds; items without it never do.
func New(e *engine.Engine, of limitertable.Description) *Sweeper {
	return &Sweeper{engine: e, store: store.NewDynamo(e.DynamoDB(), of.Name), table: of.Name,
		attribute: of.Spec.TTLAttribute, deleted: map[deletion]bool{}}
}

// Sweep deletes every item that expired before now, in epoch ms, and returns how many it deleted. A
// later instant simulates that time has passed. It does not delete an item that was changed between
// the scan and the delete.
func (s *Sweeper) Sweep(ctx context.Context, now int64) (swept int, err error) {
	items, err := s.engine.Items(ctx, s.table)
	for _, it := range items {
		if at, ok, err := item.Int(it, s.attribute); err != nil || !ok || at >= now/1000 {
			continue
		}
		deleted, err := s.remove(ctx, it)
		if err != nil {
			return swept, fmt.Errorf("delete expired item of table %q: %w", s.table, err)
		}
		if deleted {
			swept++
		}
	}
	return swept, err
}

// remove deletes the item if it is unchanged since the scan.
func (s *Sweeper) remove(ctx context.Context, it item.Item) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unchanged := item.Compare(s.attribute, item.Eq, it[s.attribute])
	_, err := s.store.Write(ctx, item.Delete{Key: item.KeyOf(it), If: unchanged})
	s.deleted[s.deletion(it)] = err == nil
	if _, changed := errors.AsType[*store.Refused](err); changed {
		return false, nil
	}
	return err == nil, err
}

// Deleted reports whether the REMOVE record is of a delete by this sweeper. It waits for a delete
// under way. If two items with one key expire in the same second, and one is swept and the other
// deleted by hand, it cannot distinguish their records.
func (s *Sweeper) Deleted(r streams.Record) bool {
	if r.EventName != streams.OperationTypeRemove || r.Dynamodb == nil {
		return false
	}
	old, err := attributevalue.FromDynamoDBStreamsMap(r.Dynamodb.OldImage)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[s.deletion(old)]
}

// deletion identifies the delete of an item by its key and expiry, because a later item may have
// the same key. The rest of the item would not work: scan and stream may render it differently.
type deletion struct {
	item.Key
	expires string
}

func (s *Sweeper) deletion(it item.Item) deletion {
	d := deletion{Key: item.KeyOf(it)}
	if n, ok := it[s.attribute].(*types.AttributeValueMemberN); ok {
		d.expires = n.Value
	}
	return d
}
