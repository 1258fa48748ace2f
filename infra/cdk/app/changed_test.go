package main

import (
	"strings"
	"testing"
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
