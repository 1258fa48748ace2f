package localstack_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
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
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/tablespec"
	"github.com/zeroae/zae-limiter-go/test/localstack/ttl"
)

// TestSynthesizedFilters writes items of every kind, lets some expire, and deletes some by hand. It
// checks which records of the real stream the deployed filter of each function passes. It runs on
// both emulators.
func TestSynthesizedFilters(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, kind)
			past, now := time.Now().Unix()-60, time.Now().UnixMilli()

			w.put("ns/BUCKET#e#r#0", layout.SKBucketState, 0)      // INSERT of a bucket
			w.update("ns/BUCKET#e#r#0", layout.SKBucketState)      // MODIFY of a bucket
			w.put("ns/BUCKET#old#r#0", layout.SKBucketState, past) // an expired bucket
			w.put("ns/BUCKET#gone#r#0", layout.SKBucketState, 0)
			w.remove("ns/BUCKET#gone#r#0", layout.SKBucketState)
			w.put("ns/ENTITY#e", "#USAGE#r#2024-01-01T14:00:00Z", 0)
			w.update("ns/ENTITY#e", "#USAGE#r#2024-01-01T14:00:00Z")
			w.put("ns/ENTITY#e", "#CONFIG#r", 0)
			w.update("ns/ENTITY#e", "#CONFIG#r")
			w.put("ns/ENTITY#e", "#META", 0)
			w.put("_/SYSTEM#", "#VERSION", 0)
			w.put("ns/AUDIT#e", layout.SKAuditPrefix+"01EXPIRED", past)
			w.put("ns/AUDIT#e", layout.SKAuditPrefix+"01BYHAND", past)
			w.remove("ns/AUDIT#e", layout.SKAuditPrefix+"01BYHAND")
			w.put("ns/AUDIT#e", layout.SKAuditPrefix+"01KEPT", past+86400)
			w.put("ns/ENTITY#e", "#USAGE#r#2020-01-01", past) // expires, but is not an audit event

			if n, err := w.sweeper.Sweep(t.Context(), now); n != 3 || err != nil {
				t.Fatalf("%d items swept, error %v", n, err)
			}
			w.drain()
			want := map[string][]string{
				"aggregator": {
					"INSERT ns/BUCKET#e#r#0 #STATE", "INSERT ns/BUCKET#gone#r#0 #STATE", "INSERT ns/BUCKET#old#r#0 #STATE",
					"MODIFY ns/BUCKET#e#r#0 #STATE", "REMOVE ns/BUCKET#gone#r#0 #STATE", "REMOVE ns/BUCKET#old#r#0 #STATE",
				},
				"archiver": {"REMOVE ns/AUDIT#e #AUDIT#01EXPIRED"},
			}
			for name, records := range want {
				got := w.got[name]
				slices.Sort(got)
				check.Slices(t, got, records, "%s got\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "),
					strings.Join(records, "\n  "))
				t.Logf("%s: %+v", name, w.mappings[name].Stats())
			}
		})
	}
}

// world is the deployed table with both mappings of the template. Lists of records replace the
// functions.
type world struct {
	t        *testing.T
	db       *dynamodb.Client
	table    string
	sweeper  *ttl.Sweeper
	mappings map[string]*eventsource.Mapping

	mu  sync.Mutex
	got map[string][]string
}

func newWorld(t *testing.T, kind engine.Kind) *world {
	t.Helper()
	e := engine.ForTest(t, kind)
	table := e.Table(t)
	w := &world{t: t, db: e.DynamoDB(), table: table.Name, mappings: map[string]*eventsource.Mapping{},
		got: map[string][]string{}}
	w.sweeper = ttl.New(e, table)
	for _, name := range []string{"aggregator", "archiver"} {
		function, err := tablespec.Deployed(name)
		check.Must(t, err)
		settings := function.Settings
		settings.Window, settings.Tumbling = 0, 0 // deliver records at once
		w.mappings[name], err = eventsource.Start(eventsource.Config{
			StreamARN: table.StreamARN, Streams: e.Streams(), Settings: settings, Expired: w.sweeper.Deleted,
			Invoke: w.list(name),
		})
		check.Must(t, err)
		t.Cleanup(w.mappings[name].Stop)
	}
	return w
}

func (w *world) list(name string) eventsource.Invoke {
	return func(_ context.Context, payload []byte) (runtimeapi.Result, error) {
		var event events.DynamoDBEvent
		if err := json.Unmarshal(payload, &event); err != nil {
			return runtimeapi.Result{}, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, r := range event.Records {
			w.got[name] = append(w.got[name],
				r.EventName+" "+r.Change.Keys[item.AttrPK].String()+" "+r.Change.Keys[item.AttrSK].String())
		}
		return runtimeapi.Result{}, nil
	}
}

func (w *world) drain() {
	w.t.Helper()
	for name, m := range w.mappings {
		check.Must(w.t, m.Drain(w.t.Context()), name)
	}
}

func itemKey(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{item.AttrPK: &types.AttributeValueMemberS{Value: pk},
		item.AttrSK: &types.AttributeValueMemberS{Value: sk}}
}

// put writes an item. expires is its ttl in epoch seconds; 0: none.
func (w *world) put(pk, sk string, expires int64) {
	w.t.Helper()
	it := itemKey(pk, sk)
	if expires != 0 {
		it[layout.AttrTTL] = number(expires)
	}
	check.Must(w.t, check.Err(w.db.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: it})))
}

func (w *world) update(pk, sk string) {
	w.t.Helper()
	_, err := w.db.UpdateItem(w.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.table, Key: itemKey(pk, sk), UpdateExpression: aws.String("ADD b_rpm_tc :n"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": number(1000)},
	})
	check.Must(w.t, err)
}

func (w *world) remove(pk, sk string) {
	w.t.Helper()
	in := &dynamodb.DeleteItemInput{TableName: &w.table, Key: itemKey(pk, sk)}
	check.Must(w.t, check.Err(w.db.DeleteItem(w.t.Context(), in)))
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
