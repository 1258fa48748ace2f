package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/archive"
)

// Object keys that the roles may write. These are the only wildcards in the
// stack's policies: an object key cannot be known before it is written.
const (
	archiveKeys       = archive.PrefixAudit + "*"
	malformedKeys     = archive.PrefixMalformed + "*" // records that no function can read, kept whole
	failedRecordsKeys = "aws/lambda/*"                // Lambda's prefix for given-up batches
)

// newRole declares an execution role that can do exactly what the statements
// say. The policy is part of the role, so it exists before anything that uses
// the role is created.
func newRole(scope constructs.Construct, id string, statements []awsiam.PolicyStatement) awsiam.Role {
	return awsiam.NewRole(scope, jsii.String(id), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"function": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements}),
		},
	})
}

// streamFunctionStatements returns what any function fed by the stream needs.
// Lambda polls the stream and delivers given-up batches with the function's
// own role.
func streamFunctionStatements(t awsdynamodb.Table, failed awss3.Bucket, logs awslogs.LogGroup) []awsiam.PolicyStatement {
	return []awsiam.PolicyStatement{
		allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.LogGroupArn()),
		allow([]string{
			"dynamodb:DescribeStream",
			"dynamodb:GetRecords",
			"dynamodb:GetShardIterator",
			"dynamodb:ListStreams", // checked when the mapping is created
		}, t.TableStreamArn()),
		allow([]string{"s3:ListBucket"}, failed.BucketArn()),
		allow([]string{"s3:PutObject"}, failed.ArnForObjects(jsii.String(failedRecordsKeys))),
	}
}

func allow(actions []string, resource *string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Effect:    awsiam.Effect_ALLOW,
		Actions:   jsii.Strings(actions...),
		Resources: &[]*string{resource},
	})
}
