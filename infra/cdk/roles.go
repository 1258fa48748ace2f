package cdk

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/archive"
)

// Object keys that the roles may write. Together with the table's indexes and actions on a customer
// key, these are the only wildcards in the policies, because an object's key is unknown before it
// is written.
const (
	archiveKeys       = archive.PrefixAudit + "*"
	malformedKeys     = archive.PrefixMalformed + "*" // unreadable records, stored completely
	failedRecordsKeys = "aws/lambda/*"                // Lambda's prefix for given-up batches
)

// newRole declares an execution role with exactly the rights of the statements, or adds them to a
// given role. The policy of a role declared here is part of it, so it exists before anything that
// uses the role is created. For a given role newRole returns its policy, on which the function must
// depend.
func (l *Limiter) newRole(
	id, purpose string, given awsiam.IRole, statements []statement,
) (awsiam.IRole, awsiam.Policy) {
	statements = append(statements, l.environmentStatements()...)
	if given != nil {
		rights := l.newRights(id+"Rights", purpose, given)
		rights.AddStatements(*policyStatements(statements)...)
		return given, rights
	}
	props := &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"function": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: policyStatements(statements)}),
		},
		RoleName:            l.name(l.props.IAM.RoleNameFormat, purpose),
		PermissionsBoundary: l.props.IAM.PermissionBoundary,
	}
	role := awsiam.NewRole(l.Construct, jsii.String(id), props)
	accept(role, rightsOfFunctions()...)
	return role, nil
}

func rightsOfFunctions() []finding {
	return append(everywhere("IAMNoInlinePolicy", "The rights are of this one function: its policy is there "+
		"before the function is, and goes with it."),
		finding{"AwsSolutions-IAM5", "The key of an object cannot be known before it is written.",
			[]any{matching(`^Resource::<.*Bucket\.Arn>\/(audit|malformed|aws\/lambda)\/\*$`)}},
		finding{"AwsSolutions-IAM5", "AWS documents the rights on a key in these families.", keyFamilies},
		finding{"AwsSolutions-IAM5", "X-Ray and network interfaces have no resources that could be named.",
			[]any{"Resource::*"}})
}

// name returns the name of a role or policy; nil leaves it to CloudFormation.
func (l *Limiter) name(format, purpose string) *string {
	if format == "" {
		return nil
	}
	return jsii.String(strings.ReplaceAll(format, "{}", l.props.TableName+"-"+purpose))
}

// environmentStatements returns the rights that every function needs for its environment: traces, a
// VPC's network interfaces, encrypted variables.
func (l *Limiter) environmentStatements() (out []statement) {
	if l.props.Tracing {
		out = append(out, allow([]string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, jsii.String("*")))
	}
	if l.props.Network.VPC != nil { // Lambda creates and removes the interfaces with the function's own role
		out = append(out, allow([]string{
			"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
			"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
		}, jsii.String("*")))
	}
	if key := l.props.EnvironmentKey; key != nil {
		out = append(out, l.via(allow([]string{"kms:Decrypt"}, key.KeyArn()), "lambda"))
	}
	return out
}

// streamStatements returns the rights of every function that reads the stream. Lambda polls the
// stream and delivers given-up batches with the function's own role.
func (l *Limiter) streamStatements(logs awslogs.LogGroup) []statement {
	failed := l.FailedRecordsBucket
	return slices.Concat(l.keyOfTable(false), l.onKey(l.Key, "s3", []string{"kms:GenerateDataKey"}), []statement{
		logStatement(logs),
		allow([]string{
			"dynamodb:DescribeStream",
			"dynamodb:GetRecords",
			"dynamodb:GetShardIterator",
			"dynamodb:ListStreams", // checked when the mapping is created
		}, l.Table.TableStreamArn()),
		allow([]string{"s3:ListBucket"}, failed.BucketArn()),
	}, putting(failed, failedRecordsKeys))
}

// putting returns the right to put objects at keys of a bucket.
func putting(bucket awss3.Bucket, keys string) []statement {
	return []statement{allow([]string{"s3:PutObject"}, bucket.ArnForObjects(jsii.String(keys)))}
}

// alertStatements returns the right to send alerts, none without a target.
func (l *Limiter) alertStatements() []statement {
	switch a := l.props.Alerts; {
	case a.Bus != nil:
		return []statement{allow([]string{"events:PutEvents"}, a.target())}
	case a.Topic != nil:
		return []statement{allow([]string{"sns:Publish"}, a.target())}
	}
	return nil
}

// target returns the ARN of the alerts' destination, nil for none.
func (p AlertProps) target() *string {
	switch {
	case p.Bus != nil:
		return p.Bus.EventBusArn()
	case p.Topic != nil:
		return p.Topic.TopicArn()
	}
	return nil
}

func logStatement(logs awslogs.LogGroup) statement {
	return allow([]string{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.LogGroupArn())
}

// keyFamilies are the actions on a customer key that end in a wildcard.
var keyFamilies = []any{"Action::kms:GenerateDataKey*", "Action::kms:ReEncrypt*"}

// keyOfTable returns the rights on the customer key that AWS requires to read an encrypted table or
// its stream, and if writes is set, to write the table; none without a key. They apply only to
// DynamoDB's calls on behalf of the caller, which cannot use the key directly.
func (l *Limiter) keyOfTable(writes bool) []statement {
	key := l.Key
	if t := l.props.ExistingTable; t != nil && t.EncryptionKey() != nil {
		key = t.EncryptionKey()
	}
	actions := []string{"kms:Decrypt", "kms:DescribeKey"}
	if writes {
		actions = append(actions, "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
	}
	return l.onKey(key, "dynamodb", actions)
}

func (l *Limiter) onKey(key awskms.IKey, service string, actions []string) []statement {
	if key == nil {
		return nil
	}
	return []statement{l.via(allow(actions, key.KeyArn()), service)}
}

// via restricts rights on a key to calls by an AWS service of this region for the caller. KMS uses
// the service name with the suffix amazonaws.com in all partitions, even if its domain has another
// one.
func (l *Limiter) via(s statement, service string) statement {
	return s.when("StringEquals", "kms:ViaService",
		service+"."+*awscdk.Stack_Of(l.Construct).Region()+".amazonaws.com")
}
