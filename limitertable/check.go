package limitertable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ErrNotFound says that there is no table of that name.
var ErrNotFound = errors.New("limitertable: no such table")

// Description describes an existing table.
type Description struct {
	Name, ARN string
	Status    types.TableStatus
	StreamARN string   // empty: no stream
	Items     int64    // as of some hours ago
	Bytes     int64    // as of some hours ago
	Protected bool     // it cannot be deleted by mistake
	Replicas  []string // regions of a global table, without its own
	Spec      Spec
}

// DiffError lists the differences between a table and its specification.
type DiffError struct {
	Table string
	Diffs []string // one sentence each, at least one
}

func (e *DiffError) Error() string {
	return fmt.Sprintf("limitertable: table %q is not as it must be: %s", e.Table, strings.Join(e.Diffs, "; "))
}

// Describe describes an existing table. The error is ErrNotFound or the client's.
func Describe(ctx context.Context, db DynamoDB, name string) (Description, error) {
	var missing *types.ResourceNotFoundException
	out, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	if errors.As(err, &missing) {
		return Description{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if err != nil {
		return Description{}, fmt.Errorf("describe table %q: %w", name, err)
	}
	ttl, err := db.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(name)})
	if err != nil {
		return Description{}, fmt.Errorf("time to live of table %q: %w", name, err)
	}
	return described(out.Table, ttl.TimeToLiveDescription), nil
}

func described(t *types.TableDescription, ttl *types.TimeToLiveDescription) Description {
	d := Description{
		Name: aws.ToString(t.TableName), ARN: aws.ToString(t.TableArn), Status: t.TableStatus,
		Protected: aws.ToBool(t.DeletionProtectionEnabled),
		StreamARN: aws.ToString(t.LatestStreamArn), Items: aws.ToInt64(t.ItemCount), Bytes: aws.ToInt64(t.TableSizeBytes),
		Spec: Spec{BillingMode: types.BillingModeProvisioned, KeySchema: t.KeySchema, Attributes: t.AttributeDefinitions},
	}
	if t.BillingModeSummary != nil {
		d.Spec.BillingMode = t.BillingModeSummary.BillingMode
	}
	if p := t.ProvisionedThroughput; p != nil && d.Spec.BillingMode == types.BillingModeProvisioned {
		d.Spec.Capacity = Capacity{aws.ToInt64(p.ReadCapacityUnits), aws.ToInt64(p.WriteCapacityUnits)}
	}
	for _, i := range t.GlobalSecondaryIndexes {
		if i.IndexStatus == types.IndexStatusCreating || i.IndexStatus == types.IndexStatusDeleting {
			continue // it answers no queries
		}
		index := types.GlobalSecondaryIndex{IndexName: i.IndexName, KeySchema: i.KeySchema, Projection: i.Projection}
		d.Spec.GlobalIndexes = append(d.Spec.GlobalIndexes, index)
	}
	for _, r := range t.Replicas {
		if region := aws.ToString(r.RegionName); !strings.Contains(d.ARN, ":"+region+":") {
			d.Replicas = append(d.Replicas, region)
		}
	}
	if s := t.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		d.Spec.StreamViewType = s.StreamViewType
	} else {
		d.StreamARN = "" // of a stream that was switched off
	}
	if ttl != nil && (ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled ||
		ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		d.Spec.TTLAttribute = aws.ToString(ttl.AttributeName)
	}
	return d
}

// Check returns nil if a table is the one that the stack deploys, or has more: further indexes,
// indexes that project more, and another billing mode are fine. The error is a *[DiffError],
// ErrNotFound or the client's.
func Check(ctx context.Context, db DynamoDB, name string) error {
	d, err := Describe(ctx, db, name)
	if err != nil {
		return err
	}
	return Deployed().Check(d)
}

// Check returns nil if a described table meets the specification, otherwise a *[DiffError].
func (s Spec) Check(d Description) error {
	var out []string
	differ := func(what, is, want string) {
		if is != want {
			out = append(out, fmt.Sprintf("%s: is %s, must be %s", what, cmp.Or(is, "off"), cmp.Or(want, "off")))
		}
	}
	differ("key", key(d.Spec.KeySchema, d.Spec.Attributes), key(s.KeySchema, s.Attributes))
	for _, want := range s.GlobalIndexes {
		name := aws.ToString(want.IndexName)
		i := slices.IndexFunc(d.Spec.GlobalIndexes, func(g types.GlobalSecondaryIndex) bool {
			return aws.ToString(g.IndexName) == name
		})
		if i < 0 {
			out = append(out, "index "+name+": is missing")
			continue
		}
		is := d.Spec.GlobalIndexes[i]
		differ("key of index "+name, key(is.KeySchema, d.Spec.Attributes), key(want.KeySchema, s.Attributes))
		if got := projection(is.Projection); got != string(types.ProjectionTypeAll) {
			differ("projection of index "+name, got, projection(want.Projection))
		}
	}
	differ("stream", string(d.Spec.StreamViewType), string(s.StreamViewType))
	differ("time to live", d.Spec.TTLAttribute, s.TTLAttribute)
	if out == nil {
		return nil
	}
	return &DiffError{Table: d.Name, Diffs: out}
}

// key renders a key as "PK:S HASH, SK:S RANGE".
func key(schema []types.KeySchemaElement, attributes []types.AttributeDefinition) string {
	var parts []string
	for _, k := range schema {
		kind := "?"
		for _, a := range attributes {
			if aws.ToString(a.AttributeName) == aws.ToString(k.AttributeName) {
				kind = string(a.AttributeType)
			}
		}
		parts = append(parts, fmt.Sprintf("%s:%s %s", aws.ToString(k.AttributeName), kind, k.KeyType))
	}
	return strings.Join(parts, ", ")
}

func projection(p *types.Projection) string {
	if p == nil {
		return ""
	}
	text := string(p.ProjectionType)
	if len(p.NonKeyAttributes) > 0 {
		text += " " + strings.Join(slices.Sorted(slices.Values(p.NonKeyAttributes)), ",")
	}
	return text
}
