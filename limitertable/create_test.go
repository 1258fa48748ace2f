package limitertable

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// fake is a DynamoDB with one table at most.
type fake struct {
	table  *types.TableDescription
	pitr   bool
	ttl    types.TimeToLiveDescription
	active int              // it is active at this look and later; before it is being created
	takes  time.Duration    // a look
	fails  map[string]error // by call
	lost   bool             // a call that fails has its effect
	calls  []string
}

func (f *fake) called(name string, table *string) (applies bool, err error) {
	if aws.ToString(table) != "limits" {
		name += " of another table"
	}
	f.calls = append(f.calls, name)
	err = f.fails[name]
	return err == nil || f.lost, err
}

func (f *fake) CreateTable(
	_ context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options),
) (*dynamodb.CreateTableOutput, error) {
	applies, err := f.called("create", in.TableName)
	switch {
	case err == nil && f.table != nil:
		return nil, &types.ResourceInUseException{}
	case applies && f.table == nil:
		f.table = tableOf(in)
	}
	return &dynamodb.CreateTableOutput{TableDescription: f.table}, err
}

// tableOf is what DynamoDB tells of a table.
func tableOf(in *dynamodb.CreateTableInput) *types.TableDescription {
	t := &types.TableDescription{
		TableName: in.TableName, TableArn: aws.String("arn:table"), LatestStreamArn: aws.String("arn:stream"),
		ItemCount: aws.Int64(7), TableSizeBytes: aws.Int64(700), TableStatus: types.TableStatusCreating,
		KeySchema: in.KeySchema, AttributeDefinitions: in.AttributeDefinitions, StreamSpecification: in.StreamSpecification,
		ProvisionedThroughput: &types.ProvisionedThroughputDescription{
			ReadCapacityUnits: aws.Int64(0), WriteCapacityUnits: aws.Int64(0)},
	}
	if in.BillingMode == types.BillingModePayPerRequest { // tables that were always provisioned have none
		t.BillingModeSummary = &types.BillingModeSummary{BillingMode: in.BillingMode}
	} else {
		t.ProvisionedThroughput.ReadCapacityUnits = in.ProvisionedThroughput.ReadCapacityUnits
		t.ProvisionedThroughput.WriteCapacityUnits = in.ProvisionedThroughput.WriteCapacityUnits
	}
	for _, g := range in.GlobalSecondaryIndexes {
		t.GlobalSecondaryIndexes = append(t.GlobalSecondaryIndexes, types.GlobalSecondaryIndexDescription{
			IndexName: g.IndexName, KeySchema: g.KeySchema, Projection: g.Projection})
	}
	return t
}

func (f *fake) DescribeTable(
	_ context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options),
) (*dynamodb.DescribeTableOutput, error) {
	_, err := f.called("describe", in.TableName)
	if err == nil && f.table == nil {
		err = &types.ResourceNotFoundException{}
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(f.takes)
	if f.active--; f.active <= 0 {
		f.table.TableStatus = types.TableStatusActive
	}
	return &dynamodb.DescribeTableOutput{Table: f.table}, nil
}

func (f *fake) DescribeTimeToLive(
	_ context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options),
) (*dynamodb.DescribeTimeToLiveOutput, error) {
	_, err := f.called("look at ttl", in.TableName)
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: &f.ttl}, err
}

func (f *fake) UpdateTimeToLive(
	_ context.Context, in *dynamodb.UpdateTimeToLiveInput, _ ...func(*dynamodb.Options),
) (*dynamodb.UpdateTimeToLiveOutput, error) {
	applies, err := f.called("switch on ttl", in.TableName)
	if set := in.TimeToLiveSpecification; applies && aws.ToBool(set.Enabled) {
		f.ttl.AttributeName, f.ttl.TimeToLiveStatus = set.AttributeName, types.TimeToLiveStatusEnabling
	}
	return nil, err
}

// existing is a DynamoDB that has a table.
func existing(s Spec, ttl types.TimeToLiveStatus) *fake {
	f := &fake{table: tableOf(s.createInput("limits"))}
	if f.ttl.TimeToLiveStatus = ttl; ttl != types.TimeToLiveStatusDisabled {
		f.ttl.AttributeName = aws.String("ttl")
	}
	return f
}

// Create makes what is missing, waits, and may be repeated; a table that is not as specified is
// left alone.
func TestCreate(t *testing.T) {
	streamless := Deployed()
	streamless.StreamViewType = ""
	provisioned, err := Deployed().Provisioned(Capacity{5, 6})
	check.Must(t, err)
	const on, off = types.TimeToLiveStatusEnabled, types.TimeToLiveStatusDisabled
	for _, c := range []struct {
		name  string
		db    *fake
		spec  Spec
		diff  string // what is not as specified; empty: nothing
		calls []string
	}{
		{"a new table", &fake{active: 2}, Deployed(), "",
			[]string{"create", "describe", "describe", "describe", "look at ttl", "switch on ttl"}},
		{"provisioned", &fake{}, provisioned, "",
			[]string{"create", "describe", "describe", "look at ttl", "switch on ttl"}},
		{"again", existing(Deployed(), on), Deployed(), "", []string{"create", "describe", "describe", "look at ttl"}},
		{"again, at once", existing(Deployed(), types.TimeToLiveStatusEnabling), Deployed(), "",
			[]string{"create", "describe", "describe", "look at ttl"}},
		{"again, where it stopped", existing(Deployed(), off), Deployed(), "",
			[]string{"create", "describe", "describe", "look at ttl", "switch on ttl"}},
		{"another table", existing(streamless, off), Deployed(), "stream: is off",
			[]string{"create", "describe", "describe", "look at ttl"}},
		{"without time to live", &fake{}, Spec{BillingMode: types.BillingModePayPerRequest}, "",
			[]string{"create", "describe", "describe", "look at ttl"}},
	} {
		synctest.Test(t, func(t *testing.T) { // it pauses between looks
			d, err := c.spec.Create(t.Context(), c.db, "limits")
			if diff, ok := errors.AsType[*DiffError](err); ok != (c.diff != "") || ok &&
				(len(diff.Diffs) == 0 || diff.Table != "limits" || !strings.Contains(err.Error(), c.diff)) || !ok && err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			check.Slices(t, c.db.calls, c.calls, "%s: calls", c.name)
			if c.diff != "" {
				return
			}
			c.spec.GlobalIndexes = slices.Clone(c.spec.GlobalIndexes)
			if want := (Description{Name: "limits", ARN: "arn:table", Status: types.TableStatusActive, Items: 7, Bytes: 700,
				StreamARN: map[bool]string{true: "arn:stream"}[c.spec.StreamViewType != ""], Spec: c.spec,
			}); !reflect.DeepEqual(d, want) {
				t.Errorf("%s: %+v\nwant %+v", c.name, d, want)
			}
		})
	}
}

// Each call of Create fails, and its error says with what; if only the answer to the last one is
// lost, the table is as it must be.
func TestCreateFails(t *testing.T) {
	cause := errors.New("not today")
	for _, call := range []string{"create", "describe", "look at ttl", "switch on ttl"} {
		for _, lost := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				db := &fake{fails: map[string]error{call: cause}, lost: lost}
				d, err := Create(t.Context(), db, "limits")
				if call == "switch on ttl" && lost {
					if err != nil || d.Spec.TTLAttribute != "ttl" {
						t.Errorf("%s, lost: %v, %+v", call, err, d)
					}
				} else if !errors.Is(err, cause) || !strings.Contains(err.Error(), `"limits"`) {
					t.Errorf("%s, lost %v: %v", call, lost, err)
				}
			})
		}
	}
}

// Create waits for five minutes at most, or until the context ends.
func TestCreateEnds(t *testing.T) {
	for _, most := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, want := t.Context(), 5*time.Minute
			if most > 0 {
				want = most
				within, cancel := context.WithTimeout(ctx, most)
				defer cancel()
				ctx = within
			}
			begin, db := time.Now(), &fake{active: 1 << 30, takes: time.Millisecond}
			_, err := Create(ctx, db, "limits")
			if took := time.Since(begin); err == nil || took > want || took < want/2 {
				t.Errorf("at most %v: %v after %v", want, err, took)
			}
			if looks := time.Duration(len(db.calls)); looks < want/(8*time.Second) || looks > want/time.Second {
				t.Errorf("%d looks in %v, want some seconds between them", looks, want)
			}
		})
	}
}

// A table that is active soon is seen soon.
func TestCreateLooksOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := Create(t.Context(), &fake{active: 4}, "limits")
		if took := time.Since(begin); err != nil || took > time.Second {
			t.Errorf("%v after %v and four looks", err, took)
		}
	})
}

// Describe tells what there is. Of a stream that was switched off DynamoDB still knows the last one.
func TestDescribe(t *testing.T) {
	check.Is(t, check.Err(Describe(t.Context(), &fake{}, "limits")), ErrNotFound, "no table")
	db := existing(Deployed(), types.TimeToLiveStatusDisabling)
	db.table.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(false),
		StreamViewType: types.StreamViewTypeNewAndOldImages}
	d, err := Describe(t.Context(), db, "limits")
	if err != nil || d.StreamARN != "" || d.Spec.StreamViewType != "" || d.Spec.TTLAttribute != "" {
		t.Errorf("%+v, %v", d, err)
	}
	cause := errors.New("not today")
	_, err = Describe(t.Context(), &fake{fails: map[string]error{"describe": cause}}, "limits")
	if !errors.Is(err, cause) || err.Error() != `describe table "limits": not today` {
		t.Errorf("no answer: %v", err)
	}
}

// What DynamoDB does not tell of a table, it does not have; units count only where they are provisioned.
func TestDescribeTakesLittle(t *testing.T) {
	want := Description{Spec: Spec{BillingMode: types.BillingModeProvisioned}}
	check.Deep(t, described(&types.TableDescription{}, nil), want, "nothing")
	d := described(&types.TableDescription{
		BillingModeSummary:    &types.BillingModeSummary{BillingMode: types.BillingModePayPerRequest},
		ProvisionedThroughput: &types.ProvisionedThroughputDescription{ReadCapacityUnits: aws.Int64(5)},
	}, nil)
	check.Equal(t, d.Spec.Capacity, Capacity{}, "on demand")
	d = described(&types.TableDescription{TableArn: aws.String("arn:aws:dynamodb:eu-west-1:123456789012:table/limits"),
		Replicas: []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}, {RegionName: aws.String("us-east-1")}},
	}, nil)
	check.Slices(t, d.Replicas, []string{"us-east-1"}, "replicas")
}

// Check looks at the table and changes nothing.
func TestCheckOfATable(t *testing.T) {
	check.Is(t, Check(t.Context(), &fake{}, "limits"), ErrNotFound, "no table")
	check.NoError(t, Check(t.Context(), existing(Deployed(), types.TimeToLiveStatusEnabled), "limits"))
	db := existing(Deployed(), types.TimeToLiveStatusDisabled)
	diff, ok := errors.AsType[*DiffError](Check(t.Context(), db, "limits"))
	if !ok || diff.Table != "limits" || !slices.Equal(diff.Diffs, []string{"time to live: is off, must be ttl"}) {
		t.Errorf("without time to live: %v", diff)
	}
	const said = `limitertable: table "limits" is not as it must be: time to live: is off, must be ttl`
	check.Equal(t, diff.Error(), said, "it says %s", diff)
	if want := []string{"describe", "look at ttl"}; !slices.Equal(db.calls, want) {
		t.Errorf("calls %q, want %q", db.calls, want)
	}
}
