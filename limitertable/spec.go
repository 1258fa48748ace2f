package limitertable

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Spec is the specification of a table. Names, tags, encryption, backups and deletion protection
// are not part of it.
type Spec struct {
	BillingMode    types.BillingMode // PAY_PER_REQUEST unless [Spec.Provisioned] made it
	KeySchema      []types.KeySchemaElement
	Attributes     []types.AttributeDefinition
	GlobalIndexes  []types.GlobalSecondaryIndex
	StreamViewType types.StreamViewType // empty: no stream
	TTLAttribute   string               // empty: nothing expires
	Capacity       Capacity             // provisioned; zero: on demand
}

// Capacity is the provisioned capacity, in units per second, of a table, and of each of its
// indexes. A throttled index throttles the writes of the table.
type Capacity struct{ ReadUnits, WriteUnits int64 }

// maxCapacity is more than DynamoDB gives any account without asking.
const maxCapacity = 1_000_000

// Provisioned returns the specification with provisioned capacity instead of capacity on demand;
// docs/cost.md says when that is cheaper. The error names the units and the accepted range, 1 to a
// million. Nothing scales the capacity: that is the work of Application Auto Scaling, which
// [CloudFormation] sets up and [Spec.Create] does not.
func (s Spec) Provisioned(c Capacity) (Spec, error) {
	for _, u := range []struct {
		name  string
		units int64
	}{{"ReadUnits", c.ReadUnits}, {"WriteUnits", c.WriteUnits}} {
		if u.units < 1 || u.units > maxCapacity {
			return Spec{}, fmt.Errorf("limitertable: %s=%d: accepted: a whole number from 1 to %d", u.name, u.units,
				maxCapacity)
		}
	}
	s.BillingMode, s.Capacity = types.BillingModeProvisioned, c
	return s, nil
}

// throughput is nil on demand.
func (c Capacity) throughput() *types.ProvisionedThroughput {
	if c == (Capacity{}) {
		return nil
	}
	return &types.ProvisionedThroughput{
		ReadCapacityUnits: aws.Int64(c.ReadUnits), WriteCapacityUnits: aws.Int64(c.WriteUnits),
	}
}

// table.json is the resource of the table in the synthesized template of the stack; a test holds it
// to that.
//
//go:embed table.json
var resource []byte

// Deployed returns the specification of the table that the stack deploys.
func Deployed() Spec {
	var r struct{ Properties json.RawMessage }
	if err := json.Unmarshal(resource, &r); err != nil {
		panic("bug: table.json: " + err.Error())
	}
	s, err := parse(r.Properties)
	if err != nil {
		panic("bug: table.json: " + err.Error())
	}
	return s
}

// properties are the properties of AWS::DynamoDB::Table that are understood. The CreateTable API
// has the same names.
type properties struct {
	AttributeDefinitions    []types.AttributeDefinition
	BillingMode             types.BillingMode
	GlobalSecondaryIndexes  []types.GlobalSecondaryIndex
	KeySchema               []types.KeySchemaElement
	ProvisionedThroughput   *types.ProvisionedThroughput
	StreamSpecification     *struct{ StreamViewType types.StreamViewType }
	TimeToLiveSpecification *struct {
		AttributeName string
		Enabled       bool
	}

	// Known, and no part of the specification.
	PointInTimeRecoverySpecification json.RawMessage
	DeletionProtectionEnabled        json.RawMessage
	SSESpecification                 json.RawMessage
	TableName                        json.RawMessage
	TableClass                       json.RawMessage
	Tags                             json.RawMessage
	OnDemandThroughput               json.RawMessage
	WarmThroughput                   json.RawMessage
	ContributorInsightsSpecification json.RawMessage
}

// parse reads the properties of an AWS::DynamoDB::Table in JSON. A property that is not
// understood is an error, so that no change of a template passes unnoticed. Provisioned capacity
// must be given, and an index must have the table's.
func parse(text []byte) (Spec, error) {
	var p properties
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Spec{}, err
	}
	s := Spec{
		BillingMode: p.BillingMode, KeySchema: p.KeySchema, Attributes: p.AttributeDefinitions,
		GlobalIndexes: p.GlobalSecondaryIndexes,
	}
	if p.StreamSpecification != nil {
		s.StreamViewType = p.StreamSpecification.StreamViewType
	}
	if ttl := p.TimeToLiveSpecification; ttl != nil && ttl.Enabled {
		s.TTLAttribute = ttl.AttributeName
	}
	if p.BillingMode == types.BillingModePayPerRequest {
		return s, nil
	}
	return s.withCapacityOf(p) // what CloudFormation does where there is no BillingMode
}

// withCapacityOf takes over the provisioned capacity, the same for table and indexes.
func (s Spec) withCapacityOf(p properties) (Spec, error) {
	if p.ProvisionedThroughput == nil {
		return Spec{}, fmt.Errorf("BillingMode %q without ProvisionedThroughput", p.BillingMode)
	}
	c := capacityOf(p.ProvisionedThroughput)
	for i, index := range s.GlobalIndexes {
		if index.ProvisionedThroughput == nil || capacityOf(index.ProvisionedThroughput) != c {
			return Spec{}, fmt.Errorf("index %s: its capacity differs from the table's", aws.ToString(index.IndexName))
		}
		s.GlobalIndexes[i].ProvisionedThroughput = nil // it is in Capacity
	}
	return s.Provisioned(c)
}

func capacityOf(t *types.ProvisionedThroughput) Capacity {
	return Capacity{aws.ToInt64(t.ReadCapacityUnits), aws.ToInt64(t.WriteCapacityUnits)}
}

// createInput returns the CreateTable call for a table. Another call switches on
// its time to live; see [Spec.Create].
func (s Spec) createInput(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:             aws.String(name),
		BillingMode:           s.BillingMode,
		KeySchema:             s.KeySchema,
		AttributeDefinitions:  s.Attributes,
		ProvisionedThroughput: s.Capacity.throughput(),
	}
	in.GlobalSecondaryIndexes = slices.Clone(s.GlobalIndexes)
	for i := range in.GlobalSecondaryIndexes {
		in.GlobalSecondaryIndexes[i].ProvisionedThroughput = s.Capacity.throughput()
	}
	if s.StreamViewType != "" {
		in.StreamSpecification = &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: s.StreamViewType,
		}
	}
	return in
}
