package ttl

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// TestSweepsAndStamps runs on both emulators: expired items are deleted and stamped, items deleted
// by hand are not stamped, and the others stay.
func TestSweepsAndStamps(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx := t.Context()
			e := engine.ForTest(t, kind)
			db, created := e.DynamoDB(), e.Table(t)
			s, table := New(e, created), created.Name
			var mu sync.Mutex
			removed := map[string]string{}
			settings := eventsource.DefaultSettings()
			settings.Filters = []string{`{"eventName":["REMOVE"]}`}
			m, err := eventsource.Start(eventsource.Config{
				StreamARN: created.StreamARN, Streams: e.Streams(), Settings: settings, Expired: s.Deleted,
				Invoke: func(_ context.Context, payload []byte) (runtimeapi.Result, error) {
					var event events.DynamoDBEvent
					check.NoError(t, json.Unmarshal(payload, &event))
					mu.Lock()
					defer mu.Unlock()
					for _, r := range event.Records {
						by := "by hand"
						if id := r.UserIdentity; id != nil {
							by = id.Type + " " + id.PrincipalID
						}
						removed[r.Change.Keys["SK"].String()] = by
					}
					return runtimeapi.Result{}, nil
				},
			})
			check.Must(t, err)
			t.Cleanup(m.Stop)

			now := time.Now().UnixMilli()
			for name, ttl := range map[string]types.AttributeValue{
				"past":    item.N(now/1000 - 10),
				"by hand": item.N(now/1000 - 10),
				"soon":    item.N(now/1000 + 3600),
				"text":    &types.AttributeValueMemberS{Value: "1"},
				"never":   nil,
			} {
				it := key(name)
				// Scan and stream may render these forms differently.
				it["details"] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}}
				it["set"] = &types.AttributeValueMemberSS{Value: []string{"b", "c", "a"}}
				if ttl != nil {
					it["ttl"] = ttl
				}
				check.Must(t, check.Err(db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: it})))
			}
			check.Must(t, check.Err(db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table,
				Key: key("by hand")})))
			for i, at := range []int64{now, now + 2*3600_000} {
				if n, err := s.Sweep(ctx, at); n != 1 || err != nil {
					t.Errorf("sweep %d: %d deleted, error %v", i, n, err)
				}
			}
			check.Must(t, m.Drain(ctx))
			const service = "Service dynamodb.amazonaws.com"
			if len(removed) != 3 || removed["past"] != service || removed["soon"] != service ||
				removed["by hand"] != "by hand" {
				t.Errorf("removed %v", removed)
			}
			out, err := db.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String(table)})
			check.Must(t, err)
			var left []string
			for _, it := range out.Items {
				left = append(left, it["SK"].(*types.AttributeValueMemberS).Value)
			}
			slices.Sort(left)
			check.Equal(t, strings.Join(left, " "), "never text", "left %v", left)
		})
	}
}

func key(sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "ns/x"}, "SK": &types.AttributeValueMemberS{Value: sk},
	}
}

// TestRenewedItemsStay: a new ttl fails the condition.
func TestRenewedItemsStay(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	db, created := e.DynamoDB(), e.Table(t)
	s, table := New(e, created), created.Name
	scanned := key("renewed")
	scanned["ttl"] = item.N(5)
	renewed := key("renewed")
	renewed["ttl"] = item.N(6)
	check.Must(t, check.Err(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: renewed})))
	if deleted, err := s.remove(t.Context(), scanned); deleted || err != nil || s.deleted[s.deletion(scanned)] {
		t.Errorf("deleted %v, error %v, kept as %v", deleted, err, s.deleted)
	}
}
