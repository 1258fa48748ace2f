package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

type fixture struct {
	t     *testing.T
	p     *Proxy
	db    *dynamodb.Client // through the proxy, without retries
	plain *dynamodb.Client
	table string
}

func newFixture(t *testing.T, kind engine.Kind) *fixture {
	t.Helper()
	e := engine.ForTest(t, kind)
	p, through, err := Engine(e, 1)
	check.Must(t, err)
	t.Cleanup(p.Stop)
	once := func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
	return &fixture{t: t, p: p, db: through.DynamoDB(once), plain: e.DynamoDB(), table: e.Table(t).Name}
}

func key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ns/b"},
		"SK": &types.AttributeValueMemberS{Value: "#STATE"}}
}

func (f *fixture) add(ctx context.Context) error {
	_, err := f.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &f.table, Key: key(), UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	})
	return err
}

// stored reads n directly, "" if there is no item.
func (f *fixture) stored() string {
	f.t.Helper()
	out, err := f.plain.GetItem(f.t.Context(),
		&dynamodb.GetItemInput{TableName: &f.table, Key: key(), ConsistentRead: aws.Bool(true)})
	check.Must(f.t, err)
	n, _ := out.Item["n"].(*types.AttributeValueMemberN)
	if n == nil {
		return ""
	}
	return n.Value
}

// TestFaults: the SDK's error and the stored item for each fault.
func TestFaults(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	for _, tt := range []struct {
		name    string
		fault   Fault
		code    string // of a smithy.APIError; "" means a broken connection
		applied bool
	}{
		{"throttled", Throttled(ReasonKeyRange), "ThrottlingException", false},
		{"throughput exceeded", ThroughputExceeded(ReasonTableLimit), "ProvisionedThroughputExceededException", false},
		{"failed", Failed(), "InternalServerError", false},
		{"conflict", Conflict(), "TransactionConflictException", false},
		{"transaction conflict", TransactionConflict(2, 1), "TransactionCanceledException", false},
		{"refused", Refused(), "", false},
		{"applied, then reset", AppliedThenReset(), "", true},
		{"applied, then half an answer", AppliedThenHalf(), "", true},
		{"applied, then error", AppliedThenError(), "InternalServerError", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := f.stored()
			rule := f.p.Add(&Rule{Operation: "UpdateItem", Contains: `"ADD n :one"`, Times: 1, Fault: tt.fault})
			err := f.add(t.Context())
			var api smithy.APIError
			switch {
			case err == nil:
				t.Error("no error")
			case tt.code == "" && errors.As(err, &api):
				t.Errorf("an answer came: %v", err)
			case tt.code != "" && (!errors.As(err, &api) || api.ErrorCode() != tt.code):
				t.Errorf("error %v", err)
			}
			if applied := f.stored() != before; applied != tt.applied || rule.Hits() != 1 {
				t.Errorf("applied %v, hits %d", applied, rule.Hits())
			}
			check.NoError(t, f.add(t.Context()), "the next call")
		})
	}
}

func TestDetailsReachTheSDK(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	f.p.Add(&Rule{Times: 1, Fault: ThroughputExceeded(ReasonKeyRange)},
		&Rule{Times: 1, Fault: Throttled(ReasonTableLimit)}, &Rule{Times: 1, Fault: TransactionConflict(2, 1)})
	if e, ok := errors.AsType[*types.ProvisionedThroughputExceededException](f.add(t.Context())); !ok ||
		len(e.ThrottlingReasons) != 1 || aws.ToString(e.ThrottlingReasons[0].Reason) != ReasonKeyRange {
		t.Errorf("throughput exceeded: %+v", e)
	}
	if e, ok := errors.AsType[*types.ThrottlingException](f.add(t.Context())); !ok || len(e.ThrottlingReasons) != 1 ||
		aws.ToString(e.ThrottlingReasons[0].Reason) != ReasonTableLimit {
		t.Errorf("throttled: %+v", e)
	}
	if e, ok := errors.AsType[*types.TransactionCanceledException](f.add(t.Context())); !ok ||
		len(e.CancellationReasons) != 2 || aws.ToString(e.CancellationReasons[1].Code) != "TransactionConflict" {
		t.Errorf("canceled: %+v", e)
	}
}

func TestRulesSelect(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	run := func(n int) (story string) {
		for range n {
			if f.add(t.Context()) == nil {
				story += "."
			} else {
				story += "x"
			}
		}
		return story
	}
	for _, tt := range []struct {
		name string
		rule *Rule
		want string
	}{
		{"skip and times", &Rule{Skip: 2, Times: 2}, "..xx.."},
		{"other operation", &Rule{Operation: "GetItem"}, "......"},
		{"other body", &Rule{Contains: "SET"}, "......"},
		{"match", &Rule{Match: func(c Call) bool { return c.Operation == "UpdateItem" }}, "xxxxxx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.p.Clear()
			tt.rule.Fault = Failed()
			f.p.Add(tt.rule)
			check.Equal(t, run(6), tt.want)
		})
	}
	f.p.Clear()
	f.p.Add(&Rule{Probability: 0.5, Fault: Failed()})
	if got := run(40); !strings.Contains(got, "x") || !strings.Contains(got, ".") {
		t.Errorf("probability: %s", got)
	}
}

func TestDelayIsCutByTheCaller(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	f.p.Add(&Rule{Operation: "UpdateItem", Fault: Delayed(time.Hour)})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.Is(t, f.add(ctx), context.DeadlineExceeded, "error")
	check.Equal(t, f.stored(), "", "a delayed call was applied")
	f.p.Clear()
	f.p.Add(&Rule{Operation: "UpdateItem", Fault: Delayed(time.Millisecond)})
	check.NoError(t, f.add(t.Context()))
}

func TestDownAndUp(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	f.p.Down()
	check.Says(t, f.add(t.Context()), "refused", "while down")
	check.Must(t, f.p.Up())
	if err := f.add(t.Context()); err != nil || f.stored() != "1" {
		t.Errorf("when up again: stored %q, %v", f.stored(), err)
	}
}

// TestMeter compares the figures with both emulators', for the template's table and an item in the
// keys-only index GSI4.
func TestMeter(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, kind)
			f.p.Meter(true)
			ctx := t.Context()
			item := key()
			item["GSI4PK"] = &types.AttributeValueMemberS{Value: "ns"}
			item["GSI4SK"] = &types.AttributeValueMemberS{Value: "x"}
			put := &dynamodb.PutItemInput{TableName: &f.table, Item: item,
				ConditionExpression: aws.String("attribute_not_exists(PK)")}
			check.Must(t, check.Err(f.db.PutItem(ctx, put)))
			check.Must(t, f.add(ctx))
			put.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
			item["pad"] = &types.AttributeValueMemberS{Value: strings.Repeat("x", 3000)}
			if _, err := f.db.PutItem(ctx, put); err == nil {
				t.Fatal("the condition held")
			}
			keys := map[string]types.KeysAndAttributes{f.table: {Keys: []map[string]types.AttributeValue{key()},
				ConsistentRead: aws.Bool(true)}}
			check.Must(t, check.Err(f.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: keys})))
			usage := f.p.Usage()
			t.Logf("%s: %+v", kind, usage)
			if u := usage["PutItem"]; u.Calls != 2 || u.WriteUnits != 2 || u.FailedUnits != 1 {
				t.Errorf("put: %+v", u)
			}
			if u := usage["UpdateItem"]; u.Calls != 1 || u.WriteUnits != 1 {
				t.Errorf("update of an attribute outside the indexes: %+v", u)
			}
			if u := usage["BatchGetItem"]; u.ReadUnits != 1 || u.WriteUnits != 0 {
				t.Errorf("read: %+v", u)
			}
			if total := f.p.Total(); total.Calls != 4 || total.WriteUnits != 3 || total.ReadUnits != 1 {
				t.Errorf("total: %+v", total)
			}
			f.p.Reset()
			check.Equal(t, len(f.p.Usage()), 0, "Reset keeps counters")
		})
	}
}
