package memdynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/storetest"
)

// Through the SDK's interface, the twin passes the suite like the emulators.
func TestSuiteOfTheClient(t *testing.T) {
	storetest.Run(t, nil, func(*testing.T) store.Lister {
		return store.NewListing(memdynamo.New(nil).Client(), "limits")
	})
	for seed := range uint64(20) {
		storetest.Compare(t, nil, seed, 300, memdynamo.New(nil), store.NewDynamo(memdynamo.New(nil).Client(), "limits"))
	}
}

// from returns SDK calls, with one outcome of each kind.
func from(ctx context.Context, db *memdynamo.DB) map[string]func() (any, error) {
	c := db.Client()
	k := key.Item()
	return map[string]func() (any, error){
		"UpdateItem": func() (any, error) { return c.UpdateItem(ctx, &dynamodb.UpdateItemInput{Key: k}) },
		"PutItem":    func() (any, error) { return c.PutItem(ctx, &dynamodb.PutItemInput{Item: k}) },
		"DeleteItem": func() (any, error) { return c.DeleteItem(ctx, &dynamodb.DeleteItemInput{Key: k}) },
		"TransactWriteItems": func() (any, error) {
			return c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("t"),
				TransactItems: []types.TransactWriteItem{{Put: &types.Put{Item: k}}}})
		},
		"BatchGetItem": func() (any, error) {
			return c.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				"limits": {Keys: []item.Item{k, {"PK": item.S("no"), "SK": item.S("such")}}}}})
		},
		"Query": func() (any, error) { return c.Query(ctx, item.Query{PK: "a"}.Input("limits")) },
		"BatchWriteItem": func() (any, error) {
			return c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
				"limits": {{DeleteRequest: &types.DeleteRequest{Key: k}}}}})
		},
	}
}

// Successful calls return the stored items.
func TestSuccessfulCallsReturnStoredItems(t *testing.T) {
	for name, do := range from(t.Context(), filled()) {
		if out, err := do(); err != nil || reflect.ValueOf(out).IsNil() {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	out, err := from(t.Context(), filled())["BatchGetItem"]()
	if got := out.(*dynamodb.BatchGetItemOutput).Responses["limits"]; err != nil || len(got) != 1 {
		t.Errorf("two keys, one of them stored: %v, %v", got, err)
	}
	out, err = from(t.Context(), filled())["Query"]()
	if q := out.(*dynamodb.QueryOutput); err != nil || q.Count != 1 || q.ScannedCount != 1 || len(q.Items) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}

func filled() *memdynamo.DB {
	db := memdynamo.New(nil)
	db.Store(key.Item())
	return db
}

// Every failed call returns an error of the SDK.
func TestFailedCallsReturnErrorsOfTheSDK(t *testing.T) {
	code := func(want string) func(error) bool {
		return func(err error) bool {
			api, ok := errors.AsType[smithy.APIError](err)
			return ok && api.ErrorCode() == want && api.ErrorMessage() != ""
		}
	}
	own := &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}
	for _, c := range []struct {
		hook error
		told func(error) bool
	}{
		{memdynamo.Fail(store.Throttled), code("ProvisionedThroughputExceededException")},
		{memdynamo.Fail(store.Conflict), code("TransactionConflictException")},
		{memdynamo.Fail(store.Setup), code("ValidationException")},
		{own, func(err error) bool { return errors.Is(err, own) && code("AccessDeniedException")(err) }},
		{memdynamo.Fail(store.Unavailable), func(err error) bool {
			dial, ok := errors.AsType[*net.OpError](err)
			return ok && dial.Op == "dial" && dial.Net == "tcp" && store.KindOf(dial.Err) == store.Unavailable
		}},
		{memdynamo.Fail(store.Unknown), func(err error) bool {
			return strings.HasPrefix(err.Error(), "answer lost: ") && store.KindOf(err) == store.Unknown
		}},
		{&store.Refused{Old: key.Item()}, func(err error) bool {
			failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
			return ok && item.EqualItems(failed.Item, key.Item()) && failed.ErrorMessage() != ""
		}},
		{&store.Canceled{Reasons: []store.Reason{{Refused: true, Old: key.Item()}, {}}}, func(err error) bool {
			failed, ok := errors.AsType[*types.TransactionCanceledException](err)
			return ok && failed.ErrorMessage() != "" && reflect.DeepEqual(failed.CancellationReasons,
				[]types.CancellationReason{{Code: aws.String("ConditionalCheckFailed"), Item: key.Item()},
					{Code: aws.String("None")}})
		}},
	} {
		db := memdynamo.New(nil)
		db.SetHook(func(memdynamo.Op) (bool, error) { return false, c.hook })
		for name, do := range from(t.Context(), db) {
			if out, err := do(); err == nil || !c.told(err) || !reflect.ValueOf(out).IsNil() {
				t.Errorf("%s fails with %v: the caller gets %v, %#v", name, c.hook, out, err)
			}
		}
	}
}

// A request survives rendering and reading.
func TestRequestsSurviveRenderingAndReading(t *testing.T) {
	n := []item.Attr{{Name: "n", Value: item.N(1)}}
	exists, small := item.Exists("a"), item.Compare("n", item.Lt, item.N(5))
	db := memdynamo.New(nil)
	var seen memdynamo.Op
	db.SetHook(func(op memdynamo.Op) (bool, error) { seen = op; return false, nil })
	c := store.NewListing(db.Client(), "limits")
	for _, w := range []item.Write{
		item.Update{Key: key, Set: n}, item.Update{Key: key, Add: n, If: exists},
		item.Update{Key: key, Add: n, Remove: []string{"m"}, If: item.Any(exists, item.All(small, item.Absent("m")))},
		item.Put{Item: key.Item(), If: item.All(exists, small, item.Any(small, exists))},
		item.Delete{Key: key, If: item.Between("n", item.N(1), item.N(2))},
	} {
		_, _ = c.Write(t.Context(), w)
		if len(seen.Writes) != 1 || !reflect.DeepEqual(seen.Writes[0], w) {
			t.Errorf("%+v is read as %+v", w, seen.Writes)
		}
	}
	for _, q := range []item.Query{
		{PK: "a"}, {PK: "a", Prefix: "b", Consistent: true}, {PK: "a", From: "b", To: "c", Limit: 7, Descending: true},
		{PK: "a", Index: "GSI1", From: "b", After: key.Item()}, {PK: "a", To: "c"},
	} {
		_, _ = c.List(t.Context(), q)
		if !reflect.DeepEqual(seen.Query, q) {
			t.Errorf("%+v is read as %+v", q, seen.Query)
		}
	}
	plain := item.Query{PK: "a"}.Input("limits")
	plain.ScanIndexForward = nil // forward
	_, _ = db.Client().Query(t.Context(), plain)
	if seen.Query.Descending {
		t.Error("a query without a direction was read as descending")
	}
}

// Requests that this project never makes are invalid, and do nothing.
func TestUnknownRequestsAreInvalid(t *testing.T) {
	db := filled()
	c, ctx := db.Client(), t.Context()
	names, values := map[string]string{"#0": "n", "#1": "m"}, item.Item{":0": item.N(1), ":1": item.N(2)}
	failed := map[string]error{}
	for _, condition := range []string{"#0 = :0 :1", "#9 = :0", "#0 = :9", "#0 <> :0", "#0 =", "(#0 = :0",
		"#0 BETWEEN :0 OR :1", "attribute_exists #0", "attribute_not_exists(#0", "size(#0) = :0", "#0 = :0 AND", "OR"} {
		_, failed[condition] = c.UpdateItem(ctx, &dynamodb.UpdateItemInput{Key: key.Item(), ConditionExpression: &condition,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values})
	}
	for _, update := range []string{"LET #0 = :0", "SET #0 :0", "SET #0 = :0,", "SET #0 = :0 - #9", "ADD #0 :9",
		"SET #0 = if_not_exists #0, :0)", "SET #0 = if_not_exists(#0 :0)", "SET #0 = if_not_exists(#0, :0", "REMOVE #9",
		"REMOVE #0 #1"} {
		_, failed[update] = c.UpdateItem(ctx, &dynamodb.UpdateItemInput{Key: key.Item(), UpdateExpression: &update,
			ExpressionAttributeNames: names, ExpressionAttributeValues: values})
	}
	odd := "#9 = :0"
	_, failed[odd+" of a put"] = c.PutItem(ctx, &dynamodb.PutItemInput{Item: key.Item(), ConditionExpression: &odd})
	_, failed[odd+" of a delete"] = c.DeleteItem(ctx, &dynamodb.DeleteItemInput{Key: key.Item(),
		ConditionExpression: &odd})
	transact := func(one types.TransactWriteItem) error {
		_, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{one}})
		return err
	}
	failed[odd+" of a check"] = transact(types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{Key: key.Item(),
		ConditionExpression: &odd}})
	query := item.Query{PK: "a"}.Input("limits")
	query.KeyConditionExpression = &odd
	_, failed[odd+" of a query"] = c.Query(ctx, query)
	for request, err := range failed {
		expression, _, _ := strings.Cut(request, " of a ")
		if want := fmt.Sprintf("expression %q is not understood", expression); !saysInvalid(err, want) {
			t.Errorf("%s: %v, want %s", request, err, want)
		}
	}
	if err := transact(types.TransactWriteItem{}); !saysInvalid(err, "a transaction with nothing in one of its places") {
		t.Error(err)
	}
	_, err := c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{"limits": {{PutRequest: &types.PutRequest{Item: key.Item()}}}}})
	if !saysInvalid(err, "only deletes are served in a batch") {
		t.Error(err)
	}
	check.Equal(t, db.Stats().Calls(), 0, "calls carried out")
}

func saysInvalid(err error, what string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "ValidationException" && api.ErrorMessage() == "not valid: "+what
}
