package tablespec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Table is a table of the template. Its name in the template, tags,
// encryption, point-in-time recovery and deletion protection are not carried
// over to a local table; PointInTimeRecovery only reports.
type Table struct {
	LogicalID           string
	TTLAttribute        string // empty when the table has no time to live
	StreamViewType      types.StreamViewType
	PointInTimeRecovery bool
	BillingMode         types.BillingMode
	KeySchema           []types.KeySchemaElement
	Attributes          []types.AttributeDefinition
	GlobalIndexes       []types.GlobalSecondaryIndex
	LocalIndexes        []types.LocalSecondaryIndex
}

// tableProperties are the properties of AWS::DynamoDB::Table the kit knows.
// Their names equal those of the CreateTable API.
type tableProperties struct {
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
	PointInTimeRecoverySpecification *struct {
		PointInTimeRecoveryEnabled bool
		RecoveryPeriodInDays       int
	}

	// Known, and without meaning for a local table.
	DeletionProtectionEnabled        json.RawMessage
	SSESpecification                 json.RawMessage
	TableName                        json.RawMessage
	TableClass                       json.RawMessage
	Tags                             json.RawMessage
	OnDemandThroughput               json.RawMessage
	WarmThroughput                   json.RawMessage
	ContributorInsightsSpecification json.RawMessage
}

func parseTable(id string, raw json.RawMessage) (Table, error) {
	var p tableProperties
	if err := strict(raw, &p); err != nil {
		return Table{}, err
	}
	if p.BillingMode == "" {
		p.BillingMode = types.BillingModeProvisioned
	}
	t := Table{
		LogicalID: id, BillingMode: p.BillingMode, KeySchema: p.KeySchema,
		Attributes: p.AttributeDefinitions, GlobalIndexes: p.GlobalSecondaryIndexes, LocalIndexes: p.LocalSecondaryIndexes,
	}
	if p.StreamSpecification != nil {
		t.StreamViewType = p.StreamSpecification.StreamViewType
	}
	if ttl := p.TimeToLiveSpecification; ttl != nil && ttl.Enabled {
		t.TTLAttribute = ttl.AttributeName
	}
	if pitr := p.PointInTimeRecoverySpecification; pitr != nil {
		t.PointInTimeRecovery = pitr.PointInTimeRecoveryEnabled
	}
	if t.BillingMode != types.BillingModePayPerRequest {
		return Table{}, fmt.Errorf("BillingMode %q is not supported, accepted is %q", t.BillingMode,
			types.BillingModePayPerRequest)
	}
	return t, nil
}

// CreateInput is the CreateTable call for the table under the given name.
func (t Table) CreateInput(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:              aws.String(name),
		BillingMode:            t.BillingMode,
		KeySchema:              t.KeySchema,
		AttributeDefinitions:   t.Attributes,
		GlobalSecondaryIndexes: t.GlobalIndexes,
		LocalSecondaryIndexes:  t.LocalIndexes,
	}
	if t.StreamViewType != "" {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: t.StreamViewType}
	}
	return in
}

// Create creates the table under the given name, waits until it is active and
// switches on its time to live. On an error after the first step the table may
// exist.
func (t Table) Create(ctx context.Context, db *dynamodb.Client, name string) error {
	if _, err := db.CreateTable(ctx, t.CreateInput(name)); err != nil {
		return fmt.Errorf("create table %q: %w", name, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, 2*time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)}, 2*time.Minute); err != nil {
		return fmt.Errorf("wait for table %q: %w", name, err)
	}
	if t.TTLAttribute == "" {
		return nil
	}
	_, err := db.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(t.TTLAttribute),
			Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("time to live of table %q: %w", name, err)
	}
	return nil
}

// StreamARN returns the ARN of the named table's current stream.
func StreamARN(ctx context.Context, db *dynamodb.Client, name string) (string, error) {
	out, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	if err != nil {
		return "", fmt.Errorf("describe table %q: %w", name, err)
	}
	if arn := aws.ToString(out.Table.LatestStreamArn); arn != "" {
		return arn, nil
	}
	return "", errors.New("table " + name + " has no stream")
}

// ForTest creates the table of the committed template under a new name and
// removes it when the test ends.
func ForTest(t testing.TB, e *engine.Engine) string {
	t.Helper()
	template, err := Load(GoldenPath())
	if err != nil {
		t.Fatal(err)
	}
	table, err := template.Table()
	if err != nil {
		t.Fatal(err)
	}
	name := engine.UniqueName("limiter")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	if err := table.Create(t.Context(), e.DynamoDB(), name); err != nil {
		t.Fatal(err)
	}
	return name
}
