package cdk

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/archive"
)

// Object keys that the roles may write. With the table's indexes, and actions
// on a customer key, these are the only wildcards in the policies: an object
// key cannot be known before it is written.
const (
	archiveKeys       = archive.PrefixAudit + "*"
	malformedKeys     = archive.PrefixMalformed + "*" // records that no function can read, kept whole
	failedRecordsKeys = "aws/lambda/*"                // Lambda's prefix for given-up batches
)

// newRole declares an execution role that can do exactly what the statements
// say, or takes one that was made elsewhere. The policy is part of the role, so
// it exists before anything that uses the role is created.
func (l *Limiter) newRole(id, purpose, external string, statements []awsiam.PolicyStatement) awsiam.IRole {
	if external != "" {
		return awsiam.Role_FromRoleArn(l.Construct, jsii.String(id), jsii.String(external),
			&awsiam.FromRoleArnOptions{Mutable: jsii.Bool(false)})
	}
	if l.props.Tracing {
		traces := allow([]string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, jsii.String("*"))
		statements = append(statements, traces) // X-Ray has no resources
	}
	props := &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"function": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements}),
		},
		RoleName:            l.name(l.props.IAM.RoleNameFormat, purpose),
		PermissionsBoundary: l.boundary(id),
	}
	role := awsiam.NewRole(l.Construct, jsii.String(id), props)
	accept(role,
		finding{"AwsSolutions-IAM5", "The key of an object cannot be known before it is written.",
			[]any{matching(`^Resource::<.*Bucket\.Arn>\/(audit|malformed|aws\/lambda)\/\*$`)}},
		finding{"AwsSolutions-IAM5", "AWS documents the rights on a key in these families.", keyFamilies},
		finding{"AwsSolutions-IAM5", "X-Ray has no resources.", []any{"Resource::*"}})
	return role
}

// name makes the name of a role or policy; nil leaves it to CloudFormation.
func (l *Limiter) name(format, purpose string) *string {
	if format == "" {
		return nil
	}
	return jsii.String(strings.ReplaceAll(format, "{}", l.props.TableName+"-"+purpose))
}

func (l *Limiter) boundary(id string) awsiam.IManagedPolicy {
	switch b := l.props.IAM.PermissionBoundary; {
	case b == "":
		return nil
	case strings.HasPrefix(b, "arn:"):
		return awsiam.ManagedPolicy_FromManagedPolicyArn(l.Construct, jsii.String(id+"Boundary"), jsii.String(b))
	default:
		return awsiam.ManagedPolicy_FromManagedPolicyName(l.Construct, jsii.String(id+"Boundary"), jsii.String(b))
	}
}

// streamStatements returns what any function fed by the stream needs. Lambda
// polls the stream and delivers given-up batches with the function's own role.
func (l *Limiter) streamStatements(logs awslogs.LogGroup) []awsiam.PolicyStatement {
	failed := l.FailedRecordsBucket
	return append(l.keyStatements(),
		logStatement(logs),
		allow([]string{
			"dynamodb:DescribeStream",
			"dynamodb:GetRecords",
			"dynamodb:GetShardIterator",
			"dynamodb:ListStreams", // checked when the mapping is created
		}, l.Table.TableStreamArn()),
		allow([]string{"s3:ListBucket"}, failed.BucketArn()),
		allow([]string{"s3:PutObject"}, failed.ArnForObjects(jsii.String(failedRecordsKeys))),
	)
}

func logStatement(logs awslogs.LogGroup) awsiam.PolicyStatement {
	return allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.LogGroupArn())
}

// keyFamilies are the actions on a customer key that end in a wildcard.
var keyFamilies = []any{"Action::kms:GenerateDataKey*", "Action::kms:ReEncrypt*"}

// keyStatements returns the rights on the customer key, none without one: what
// AWS asks of whoever reads and writes an encrypted table or bucket.
func (l *Limiter) keyStatements() []awsiam.PolicyStatement {
	if l.Key == nil {
		return nil
	}
	return []awsiam.PolicyStatement{allow([]string{
		"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*",
	}, l.Key.KeyArn())}
}

func allow(actions []string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Effect:    awsiam.Effect_ALLOW,
		Actions:   jsii.Strings(actions...),
		Resources: &resources,
	})
}
