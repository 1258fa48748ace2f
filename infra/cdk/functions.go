package main

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/config"
)

// function is what the two functions differ in.
type function struct {
	id          string
	description string
	code        string // folder with the built bootstrap
	memoryMiB   int    // Lambda gives CPU in proportion
	timeoutS    int
	env         map[string]string
	role        awsiam.Role
	logs        awslogs.LogGroup
}

// newAggregator declares the function that counts usage, refills buckets and
// splits hot ones. Its name is left to CloudFormation on purpose: a Python
// client updates the code of a function called <stack>-aggregator.
func newAggregator(scope constructs.Construct, opts options, t awsdynamodb.Table, failed awss3.Bucket, code string) awslambda.Function {
	logs := newLogGroup(scope, "AggregatorLogs", opts)
	role := newRole(scope, "AggregatorRole", append(
		streamFunctionStatements(t, failed, logs),
		allow([]string{"dynamodb:UpdateItem", "dynamodb:PutItem", "dynamodb:ConditionCheckItem"}, t.TableArn()),
		allow([]string{"s3:PutObject"}, failed.ArnForObjects(jsii.String(malformedKeys))),
	))
	return newFunction(scope, function{
		id:          "Aggregator",
		description: "Folds the table's stream into usage, refills buckets and splits hot ones.",
		code:        code,
		memoryMiB:   512,
		timeoutS:    60,
		env: map[string]string{
			config.EnvTableName:            *t.TableName(),
			config.EnvSnapshotWindows:      opts.SnapshotWindows,
			config.EnvSnapshotTTLDays:      strconv.Itoa(opts.SnapshotTTLDays),
			config.EnvMaxShards:            strconv.Itoa(opts.MaxShards),
			config.EnvWriteConcurrency:     strconv.Itoa(opts.WriteConcurrency),
			config.EnvDeadLetterBucketName: *failed.BucketName(),
		},
		role: role,
		logs: logs,
	})
}

// newArchiver declares the function that writes expired audit events to the
// archive bucket. It cannot read or write the table.
func newArchiver(scope constructs.Construct, opts options, t awsdynamodb.Table, archive, failed awss3.Bucket, code string) awslambda.Function {
	logs := newLogGroup(scope, "ArchiverLogs", opts)
	role := newRole(scope, "ArchiverRole", append(
		streamFunctionStatements(t, failed, logs),
		allow([]string{"s3:PutObject"}, archive.ArnForObjects(jsii.String(archiveKeys))),
		allow([]string{"s3:PutObject"}, archive.ArnForObjects(jsii.String(malformedKeys))),
	))
	return newFunction(scope, function{
		id:          "Archiver",
		description: "Writes audit events that expired by TTL to the archive bucket.",
		code:        code,
		memoryMiB:   256,
		timeoutS:    60,
		env:         map[string]string{config.EnvArchiveBucketName: *archive.BucketName()},
		role:        role,
		logs:        logs,
	})
}

func newFunction(scope constructs.Construct, f function) awslambda.Function {
	env := map[string]*string{
		// The Go runtime collects garbage harder before Lambda would kill it.
		"GOMEMLIMIT": jsii.String(fmt.Sprintf("%dMiB", f.memoryMiB*9/10)),
	}
	for name, value := range f.env {
		env[name] = jsii.String(value)
	}
	return awslambda.NewFunction(scope, jsii.String(f.id), &awslambda.FunctionProps{
		Description:   jsii.String(f.description),
		Runtime:       awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:  awslambda.Architecture_ARM_64(),
		Handler:       jsii.String("bootstrap"),
		Code:          awslambda.Code_FromAsset(jsii.String(f.code), nil),
		MemorySize:    jsii.Number(f.memoryMiB),
		Timeout:       awscdk.Duration_Seconds(jsii.Number(f.timeoutS)),
		Environment:   &env,
		Role:          f.role,
		LogGroup:      f.logs,
		LoggingFormat: awslambda.LoggingFormat_JSON, // what makes the functions' logger write JSON
	})
}

// newLogGroup declares a function's log group, so that its retention is ours
// and its role needs no right to create groups.
func newLogGroup(scope constructs.Construct, id string, opts options) awslogs.LogGroup {
	return awslogs.NewLogGroup(scope, jsii.String(id), &awslogs.LogGroupProps{
		Retention:     opts.logRetention(),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
}
