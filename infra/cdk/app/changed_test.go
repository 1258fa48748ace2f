package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

// TestEveryOptionArrives looks for what each option changes.
func TestEveryOptionArrives(t *testing.T) {
	all := string(changed.text)
	for option, want := range map[string]string{
		"tableName":            `"TableName": "prod-table"`,
		"namespaces":           `"team-a"`,
		"auditRetentionDays":   `"AuditRetentionDays": "365"`,
		"memory":               `"MemorySize": 1024`,
		"timeout":              `"Timeout": 120`,
		"batch size":           `"BatchSize": 500`,
		"window":               `"MaximumBatchingWindowInSeconds": 5`,
		"parallelization":      `"ParallelizationFactor": 3`,
		"fold":                 `"TumblingWindowInSeconds": 300`,
		"reserved concurrency": `"ReservedConcurrentExecutions": 20`,
		"setupRoleArn":         `"Role": "arn:aws:iam::123456789012:role/limits-setup"`,
		"logLevel":             `"ApplicationLogLevel": "DEBUG"`,
		"tracing":              `"Mode": "Active"`,
		"iterator age":         `"Threshold": 60000`,
		"duration":             `"Threshold": 60000`,
		"errors":               `"Threshold": 10,`,
		"throttles":            `"Threshold": 7,`,
		"pitrDays":             `"RecoveryPeriodInDays": 7`,
		"deletionProtection":   `"DeletionProtectionEnabled": true`,
		"warm throughput":      `"WriteUnitsPerSecond": 10000`,
		"maximum":              `"MaxWriteRequestUnits": 30000`,
		"boundary":             `:policy/developers"`,
		"roleNameFormat":       `"RoleName": "pb-prod-table-aggregator"`,
		"policyNameFormat":     `"ManagedPolicyName": "pb-prod-table-namespace-read-policy"`,
		"transition":           `"StorageClass": "GLACIER_IR"`,
		"expiry":               `"ExpirationInDays": 3650`,
		"key of the table":     `"SSEType": "KMS"`,
		"key of the buckets":   `"SSEAlgorithm": "aws:kms"`,
		"rights on the key":    `"kms:Decrypt"`,
		"removalPolicy":        `"DeletionPolicy": "Delete"`,
		"tags":                 `"Key": "cost-center"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s: the template does not say %s", option, want)
		}
	}
}

func TestBareStackHasOnlyTheAggregator(t *testing.T) {
	for kind, want := range map[string]int{
		"AWS::DynamoDB::Table": 0, "AWS::S3::Bucket": 1, "AWS::Lambda::Function": 2, "AWS::Lambda::EventSourceMapping": 1,
		"AWS::IAM::ManagedPolicy": 0, "AWS::CloudWatch::Alarm": 0, "AWS::CloudWatch::Dashboard": 0, "AWS::IAM::Role": 1,
	} {
		if n := len(bare.ofType(kind)); n != want {
			t.Errorf("%d of %s, want %d", n, kind, want)
		}
	}
	mapping := bare.one(t, "AWS::Lambda::EventSourceMapping", "Aggregator").Properties
	if mapping["EventSourceArn"] != bareContext["zae-limiter:existingStreamArn"] {
		t.Errorf("the aggregator reads %v", mapping["EventSourceArn"])
	}
	if mapping["Enabled"] != false {
		t.Errorf("a paused mapping is enabled: %v", mapping["Enabled"])
	}
}

// TestIDsOfConstructsAreNoLogicalIDs: they may have hyphens, which CloudFormation does not take.
func TestIDsOfConstructsAreNoLogicalIDs(t *testing.T) {
	stack := awscdk.NewStack(newApp(t.TempDir(), nil), jsii.String("Platform"), nil)
	dist := t.TempDir()
	if err := writeStubs(dist); err != nil {
		t.Fatal(err)
	}
	cdk.New(constructs.NewConstruct(stack, jsii.String("my-app")), "prod_limits", &cdk.Props{Code: cdk.Code{
		Aggregator: programIn(dist, "aggregator"), Archiver: programIn(dist, "archiver"), Setup: programIn(dist, "setup")}})
	got, err := decodeTemplate(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range holding.IDs() {
		if _, ok := got.Resources["myappprodlimits"+id]; !ok {
			t.Errorf("no %s among %v", id, slices.Sorted(maps.Keys(got.Resources)))
		}
	}
}

// TestTablesWithoutAStream: an imported table has one only if it is said. It is missed with a sentence,
// where a function would read it.
func TestTablesWithoutAStream(t *testing.T) {
	stack := awscdk.NewStack(newApp(t.TempDir(), nil), jsii.String("Imported"), nil)
	props := cdk.Props{ExistingTable: awsdynamodb.Table_FromTableName(stack, jsii.String("T"), jsii.String("limits"))}
	if err := props.Validate(); err == nil || !strings.Contains(err.Error(), "ExistingTable: it has no stream") {
		t.Errorf("error %v", err)
	}
	props.Aggregator.Off = true
	if err := props.Validate(); err == nil {
		t.Error("the archiver needs none")
	}
	props.Archiver.Off = true
	if err := props.Validate(); err != nil {
		t.Error(err)
	}
}

// TestProvisionedCapacity: the table and each index have the least capacity, no bound of
// on-demand capacity, and a target of auto scaling for reads and for writes; a table that
// is deployed changes its mode in place, both ways.
func TestProvisionedCapacity(t *testing.T) {
	props := provisioned.one(t, "AWS::DynamoDB::Table", "Table").Properties
	least := `{"ReadCapacityUnits":5,"WriteCapacityUnits":5}`
	if got := text(t, props["ProvisionedThroughput"]); got != least || props["OnDemandThroughput"] != nil {
		t.Errorf("the table has %s, and on demand %v", got, props["OnDemandThroughput"])
	}
	for _, i := range props["GlobalSecondaryIndexes"].([]any) {
		if got := text(t, dig(i, "ProvisionedThroughput")); got != least {
			t.Errorf("index %v has %s", dig(i, "IndexName"), got)
		}
	}
	most := map[string]float64{}
	for _, r := range provisioned.ofType("AWS::ApplicationAutoScaling::ScalableTarget") {
		if r.Properties["MinCapacity"] != 5.0 {
			t.Errorf("least capacity %v", r.Properties["MinCapacity"])
		}
		most[r.Properties["ScalableDimension"].(string)] += r.Properties["MaxCapacity"].(float64)
	}
	want := map[string]float64{"dynamodb:table:ReadCapacityUnits": 2000, "dynamodb:table:WriteCapacityUnits": 1000,
		"dynamodb:index:ReadCapacityUnits": 4 * 2000, "dynamodb:index:WriteCapacityUnits": 4 * 1000}
	if !maps.Equal(most, want) {
		t.Errorf("auto scaling provisions at most %v, want %v", most, want)
	}
	if policies := provisioned.ofType("AWS::ApplicationAutoScaling::ScalingPolicy"); len(policies) != 10 ||
		strings.Count(string(provisioned.text), `"TargetValue": 60`) != 10 {
		t.Errorf("%d policies", len(policies))
	}
	for _, err := range []error{cdk.CheckUpdate(golden.text, provisioned.text),
		cdk.CheckUpdate(provisioned.text, golden.text)} {
		if err != nil {
			t.Error(err)
		}
	}
}
