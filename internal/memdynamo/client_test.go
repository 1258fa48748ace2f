package memdynamo_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/storetest"
)

// As the SDK has it, the twin is a table like the engines'.
func TestSuiteOfTheClient(t *testing.T) {
	storetest.Run(t, nil, func(*testing.T) store.Lister {
		return store.NewListing(memdynamo.New(nil).Client(), "limits")
	})
	for seed := range uint64(20) {
		storetest.Compare(t, nil, seed, 300, memdynamo.New(nil), store.NewDynamo(memdynamo.New(nil).Client(), "limits"))
	}
}

// from calls the client as the SDK is called, for one outcome of each kind.
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

// What succeeds has an answer, of what there is.
func TestAnswersOfTheClient(t *testing.T) {
	for name, do := range from(t.Context(), filled()) {
		if out, err := do(); err != nil || reflect.ValueOf(out).IsNil() {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	out, err := from(t.Context(), filled())["BatchGetItem"]()
	if got := out.(*dynamodb.BatchGetItemOutput).Responses["limits"]; err != nil || len(got) != 1 {
		t.Errorf("of two keys, one of which there is: %v, %v", got, err)
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

// What fails is told in the words of the SDK, by every call.
func TestErrorsOfTheClient(t *testing.T) {
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
				t.Errorf("%s fails with %v: it is told %v, %#v", name, c.hook, out, err)
			}
		}
	}
}

// A request is read as what it was made from.
func TestRequestsAreRead(t *testing.T) {
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
	plain.ScanIndexForward = nil // is forward
	_, _ = db.Client().Query(t.Context(), plain)
	if seen.Query.Descending {
		t.Error("a query without a direction is read as one down")
	}
}

// What no request of this project says is not valid, and does nothing.
func TestRequestsThatAreNotUnderstood(t *testing.T) {
	db := filled()
	c, ctx, text := db.Client(), t.Context(), aws.String
	names, values := map[string]string{"#0": "n", "#1": "m"}, item.Item{":0": item.N(1), ":1": item.N(2)}
	update := func(update, condition string) error {
		in := &dynamodb.UpdateItemInput{Key: key.Item(), ExpressionAttributeNames: names,
			ExpressionAttributeValues: values}
		if update != "" {
			in.UpdateExpression = &update
		}
		if condition != "" {
			in.ConditionExpression = &condition
		}
		_, err := c.UpdateItem(ctx, in)
		return err
	}
	for condition, want := range map[string]string{
		"#0 = :0 :1": `condition goes on with ":1"`, "#9 = :0": `name "#9" is not defined`,
		"#0 = :9": `value ":9" is not defined`, "#0 <> :0": `operator "<>" is not known`,
		"#0 =":     `value "" is not defined`,
		"(#0 = :0": `want ")" before ""`, "#0 BETWEEN :0 OR :1": `want "AND" before "OR :1"`,
		"attribute_exists #0": `want "(" before "#0"`, "attribute_not_exists(#0": `want ")" before ""`,
		"size(#0) = :0": `name "size" is not defined`, "#0 = :0 AND": `name "" is not defined`,
		"OR": `name "OR" is not defined`,
	} {
		if err := update("", condition); !saysInvalid(err, want) {
			t.Errorf("condition %s: %v, want %s", condition, err, want)
		}
	}
	for expression, want := range map[string]string{
		"LET #0 = :0": `action "LET" is not known`, "SET #0 :0": `want "=" before ":0"`,
		"SET #0 = :0,":     `name "" is not defined`,
		"SET #0 = :0 - #9": `name "#9" is not defined`, "ADD #0 :9": `value ":9" is not defined`,
		"SET #0 = if_not_exists #0, :0)": `want "(" before "#0 , :0 )"`,
		"SET #0 = if_not_exists(#0 :0)":  `want "," before ":0 )"`,
		"SET #0 = if_not_exists(#0, :0":  `want ")" before ""`, "REMOVE #9": `name "#9" is not defined`,
		"REMOVE #0 #1": `name "" is not defined`,
	} {
		if err := update(expression, ""); !saysInvalid(err, want) {
			t.Errorf("update %s: %v, want %s", expression, err, want)
		}
	}
	query := item.Query{PK: "a"}.Input("limits")
	query.KeyConditionExpression = text("#p = :p AND size(#p) = :p")
	put := &types.PutRequest{Item: key.Item()}
	for name, do := range map[string]func() error{
		`key condition "#p = :p AND size(#p) = :p" is not understood`: func() error {
			_, err := c.Query(ctx, query)
			return err
		},
		`name "#9" is not defined`: func() error {
			_, err := c.PutItem(ctx, &dynamodb.PutItemInput{Item: key.Item(), ConditionExpression: text("#9 = :0")})
			return err
		},
		`condition goes on with ":0"`: func() error {
			_, err := c.DeleteItem(ctx, &dynamodb.DeleteItemInput{Key: key.Item(), ExpressionAttributeNames: names,
				ExpressionAttributeValues: values, ConditionExpression: text("#0 = :0 :0")})
			return err
		},
		`value ":9" is not defined`: func() error {
			check := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{Key: key.Item(),
				ExpressionAttributeNames: names, ConditionExpression: text("#0 = :9")}}
			_, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
				TransactItems: []types.TransactWriteItem{check}})
			return err
		},
		"only deletes are served in a batch": func() error {
			_, err := c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
				RequestItems: map[string][]types.WriteRequest{"limits": {{PutRequest: put}}}})
			return err
		},
		"a transaction with nothing in one of its places": func() error {
			nothing := make([]types.TransactWriteItem, 1)
			_, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: nothing})
			return err
		},
	} {
		if err := do(); !saysInvalid(err, name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
	if n := db.Stats().Calls(); n != 0 {
		t.Errorf("%d calls were carried out", n)
	}
}

func saysInvalid(err error, what string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "ValidationException" && api.ErrorMessage() == "not valid: "+what
}
