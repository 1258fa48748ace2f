package limitertable

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Spec is what a table must be like. Names, tags, encryption, backups and
// deletion protection are not part of it.
type Spec struct {
	BillingMode    types.BillingMode // always PAY_PER_REQUEST
	KeySchema      []types.KeySchemaElement
	Attributes     []types.AttributeDefinition
	GlobalIndexes  []types.GlobalSecondaryIndex
	LocalIndexes   []types.LocalSecondaryIndex
	StreamViewType types.StreamViewType // empty: no stream
	TTLAttribute   string               // empty: nothing expires
}

// table.json is the resource of the table in the synthesized template of the
// stack; a test holds it to that.
//
//go:embed table.json
var resource []byte

// Deployed returns the specification of the table that the stack deploys.
func Deployed() Spec {
	var r struct{ Properties json.RawMessage }
	if err := json.Unmarshal(resource, &r); err != nil {
		panic("bug: table.json: " + err.Error())
	}
	s, err := Parse(r.Properties)
	if err != nil {
		panic("bug: table.json: " + err.Error())
	}
	return s
}

// properties are the properties of AWS::DynamoDB::Table that are understood.
// Their names equal those of the CreateTable API.
type properties struct {
	AttributeDefinitions    []types.AttributeDefinition
	BillingMode             types.BillingMode
	GlobalSecondaryIndexes  []types.GlobalSecondaryIndex
	KeySchema               []types.KeySchemaElement
	LocalSecondaryIndexes   []types.LocalSecondaryIndex
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

// Parse reads the properties of an AWS::DynamoDB::Table in JSON. A property
// that is not understood is an error, so that no change of a template passes
// unnoticed; so is any billing mode but PAY_PER_REQUEST.
func Parse(text []byte) (Spec, error) {
	var p properties
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Spec{}, err
	}
	if p.BillingMode == "" {
		p.BillingMode = types.BillingModeProvisioned // what CloudFormation takes it for
	}
	if p.BillingMode != types.BillingModePayPerRequest {
		return Spec{}, fmt.Errorf("BillingMode %q is not supported, accepted is %q", p.BillingMode,
			types.BillingModePayPerRequest)
	}
	s := Spec{
		BillingMode: p.BillingMode, KeySchema: p.KeySchema, Attributes: p.AttributeDefinitions,
		GlobalIndexes: p.GlobalSecondaryIndexes, LocalIndexes: p.LocalSecondaryIndexes,
	}
	if p.StreamSpecification != nil {
		s.StreamViewType = p.StreamSpecification.StreamViewType
	}
	if ttl := p.TimeToLiveSpecification; ttl != nil && ttl.Enabled {
		s.TTLAttribute = ttl.AttributeName
	}
	return s, nil
}

// CreateInput returns the CreateTable call for a table of that name. Its time to
// live is switched on by another call; see [Spec.Create].
func (s Spec) CreateInput(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:              aws.String(name),
		BillingMode:            s.BillingMode,
		KeySchema:              s.KeySchema,
		AttributeDefinitions:   s.Attributes,
		GlobalSecondaryIndexes: s.GlobalIndexes,
		LocalSecondaryIndexes:  s.LocalIndexes,
	}
	if s.StreamViewType != "" {
		in.StreamSpecification = &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: s.StreamViewType,
		}
	}
	return in
}
