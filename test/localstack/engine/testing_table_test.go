package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// troubled fails each writing call once: before the call, or after it, so that its answer is lost.
type troubled struct {
	*dynamodb.Client
	apply           bool
	created, expire bool // failed already
}

var errLost = errors.New("lost")

func (d *troubled) CreateTable(
	ctx context.Context, in *dynamodb.CreateTableInput, opts ...func(*dynamodb.Options),
) (*dynamodb.CreateTableOutput, error) {
	if d.created {
		return d.Client.CreateTable(ctx, in, opts...)
	}
	d.created = true
	if d.apply {
		if _, err := d.Client.CreateTable(ctx, in, opts...); err != nil {
			return nil, err
		}
	}
	return nil, errLost
}

func (d *troubled) UpdateTimeToLive(
	ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, opts ...func(*dynamodb.Options),
) (*dynamodb.UpdateTimeToLiveOutput, error) {
	if d.expire {
		return d.Client.UpdateTimeToLive(ctx, in, opts...)
	}
	d.expire = true
	if d.apply {
		if _, err := d.Client.UpdateTimeToLive(ctx, in, opts...); err != nil {
			return nil, err
		}
	}
	return nil, errLost
}

// TestCreateGoesOn creates a table through failing calls and lost answers. A second creation
// changes nothing.
func TestCreateGoesOn(t *testing.T) {
	for _, kind := range Kinds() {
		for name, apply := range map[string]bool{"refused": false, "answer lost": true} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				e := ForTest(t, kind)
				table := UniqueName("limiter")
				t.Cleanup(func() { e.RemoveTable(t, table) })
				db := &troubled{Client: e.DynamoDB(), apply: apply}
				check.Is(t, limitertable.Check(t.Context(), db, table), limitertable.ErrNotFound, "check before")
				for tries := 0; ; tries++ {
					_, err := limitertable.Create(t.Context(), db, table)
					if err == nil {
						break
					}
					if !errors.Is(err, errLost) || tries > 3 {
						t.Fatal(err)
					}
				}
				check.NoError(t, limitertable.Check(t.Context(), db, table))
				d, err := limitertable.Create(t.Context(), db, table)
				if err != nil || d.Status != types.TableStatusActive || d.StreamARN == "" {
					t.Errorf("again: %+v, %v", d, err)
				}
			})
		}
	}
}

// An existing table with another schema is left unchanged.
func TestCreateLeavesOtherTablesAlone(t *testing.T) {
	e := ForTest(t, Dynoxide)
	table := UniqueName("other")
	t.Cleanup(func() { e.RemoveTable(t, table) })
	other := limitertable.Deployed()
	other.StreamViewType, other.TTLAttribute = "", ""
	check.Must(t, check.Err(other.Create(t.Context(), e.DynamoDB(), table)))
	d, err := limitertable.Create(t.Context(), e.DynamoDB(), table)
	if diff, ok := errors.AsType[*limitertable.DiffError](err); !ok || len(diff.Diffs) != 2 || d.Spec.TTLAttribute != "" {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = limitertable.Describe(t.Context(), e.DynamoDB(), table); err != nil || d.Spec.TTLAttribute != "" {
		t.Errorf("time to live was switched on: %+v, %v", d, err)
	}
}

// A table with provisioned capacity is created correctly.
func TestCreateProvisioned(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := ForTest(t, kind)
			table := UniqueName("provisioned")
			t.Cleanup(func() { e.RemoveTable(t, table) })
			want := limitertable.Capacity{ReadUnits: 6, WriteUnits: 7}
			spec, err := limitertable.Deployed().Provisioned(want)
			check.Must(t, err)
			d, err := spec.Create(t.Context(), e.DynamoDB(), table)
			if err != nil || d.Spec.BillingMode != types.BillingModeProvisioned || d.Spec.Capacity != want {
				t.Errorf("%s %+v, %v", d.Spec.BillingMode, d.Spec.Capacity, err)
			}
			check.NoError(t, limitertable.Check(t.Context(), e.DynamoDB(), table))
		})
	}
}

// TestGoldenTableOnEveryEngine creates the deployed table and reads it back.
func TestGoldenTableOnEveryEngine(t *testing.T) {
	table := limitertable.Deployed()
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := ForTest(t, kind)
			db := e.DynamoDB()
			created := e.Table(t)
			name := created.Name
			out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
			check.Must(t, err)
			projections := map[string]types.ProjectionType{}
			for _, index := range out.Table.GlobalSecondaryIndexes {
				projections[*index.IndexName] = index.Projection.ProjectionType
			}
			if len(projections) != len(table.GlobalIndexes) || len(projections) != 4 {
				t.Errorf("indexes %v", projections)
			}
			for _, want := range table.GlobalIndexes {
				if got := projections[*want.IndexName]; got != want.Projection.ProjectionType {
					t.Errorf("index %s projects %q, the template says %q", *want.IndexName, got,
						want.Projection.ProjectionType)
				}
			}
			ttl, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
			if err != nil || ttl.TimeToLiveDescription.AttributeName == nil ||
				*ttl.TimeToLiveDescription.AttributeName != "ttl" {
				t.Errorf("time to live %+v, error %v", ttl, err)
			}
			if created.StreamARN == "" || created.StreamARN != *out.Table.LatestStreamArn ||
				out.Table.StreamSpecification.StreamViewType != types.StreamViewTypeNewAndOldImages {
				t.Errorf("stream %q %+v", created.StreamARN, out.Table.StreamSpecification)
			}
		})
	}
}
