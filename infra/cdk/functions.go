package cdk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// program is the properties that differ between the functions.
type program struct {
	id          string
	description string
	code        awslambda.Code // nil: it is built
	memoryMiB   int            // Lambda allocates CPU in proportion
	timeoutS    int
	reserved    int
	env         map[string]*string
	role        awsiam.IRole // nil: a role of its own
	rights      func(logs awslogs.LogGroup) []statement
}

// addAggregator declares the function that counts usage, refills buckets, splits hot ones and
// merges them again. CloudFormation names it on purpose: a Python client updates the code of a
// function called <stack>-aggregator.
func (l *Limiter) addAggregator() {
	p, failed := l.props.Aggregator, l.FailedRecordsBucket
	env := map[string]*string{
		function.EnvTableName:            l.Table.TableName(),
		function.EnvSnapshotWindows:      jsii.String(strings.Join(l.props.SnapshotWindows, ",")),
		function.EnvSnapshotTTLDays:      jsii.String(strconv.Itoa(l.props.SnapshotTTLDays)),
		function.EnvMaxShards:            jsii.String(strconv.Itoa(l.props.MaxShards)),
		function.EnvMergeAfterSeconds:    jsii.String(strconv.Itoa(l.props.MergeAfterSeconds)),
		function.EnvWriteConcurrency:     jsii.String(strconv.Itoa(l.props.WriteConcurrency)),
		function.EnvThresholds:           jsii.String(strings.Join(l.props.Thresholds, ",")),
		function.EnvDeadLetterBucketName: failed.BucketName(),
	}
	if target := l.props.Alerts.target(); target != nil {
		env[function.EnvAlertTargetARN] = target
	}
	if n := l.props.MaxWriteUnits; n > 0 {
		env[function.EnvMaxWriteUnits] = jsii.String(strconv.Itoa(n))
	}
	l.Aggregator, l.AggregatorRole = l.newFunction(program{
		id:          "Aggregator",
		description: "Folds the table's stream into usage, refills buckets and splits hot ones.",
		code:        l.props.Code.Aggregator,
		memoryMiB:   p.MemoryMiB,
		timeoutS:    p.TimeoutSeconds,
		reserved:    p.ReservedConcurrency,
		env:         env,
		role:        p.Role,
		rights: func(logs awslogs.LogGroup) []statement {
			return slices.Concat(l.streamStatements(logs), l.keyOfTable(true), l.aggregatorStatements(),
				putting(failed, malformedKeys), l.alertStatements())
		},
	})
	l.AggregatorMapping = l.newAggregatorMapping()
}

// addArchiver declares the function that writes expired audit events to the archive bucket. It
// cannot read or write the table.
func (l *Limiter) addArchiver() {
	p, archive := l.props.Archiver, l.ArchiveBucket
	l.Archiver, l.ArchiverRole = l.newFunction(program{
		id:          "Archiver",
		description: "Writes audit events that expired by TTL to the archive bucket.",
		code:        l.props.Code.Archiver,
		memoryMiB:   p.MemoryMiB,
		timeoutS:    p.TimeoutSeconds,
		reserved:    p.ReservedConcurrency,
		env:         map[string]*string{function.EnvArchiveBucketName: archive.BucketName()},
		role:        p.Role,
		rights: func(logs awslogs.LogGroup) []statement {
			return slices.Concat(l.streamStatements(logs),
				putting(archive, archiveKeys), putting(archive, malformedKeys))
		},
	})
	l.ArchiverMapping = l.newArchiverMapping()
}

// newFunction declares a function with its log group and its role.
func (l *Limiter) newFunction(f program) (awslambda.Function, awsiam.IRole) {
	logs, purpose := l.newLogGroup(f.id+"Logs"), strings.ToLower(f.id)
	role, rights := l.newRole(f.id+"Role", purpose, f.role, f.rights(logs))
	// With this limit, the Go runtime collects garbage more often before Lambda would kill it.
	f.env["GOMEMLIMIT"] = jsii.String(fmt.Sprintf("%dMiB", f.memoryMiB*9/10))
	props := &awslambda.FunctionProps{
		Description:                  jsii.String(f.description),
		Runtime:                      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:                 awslambda.Architecture_ARM_64(),
		Handler:                      jsii.String("bootstrap"),
		Code:                         code(purpose, f.code),
		MemorySize:                   jsii.Number(f.memoryMiB),
		Timeout:                      awscdk.Duration_Seconds(jsii.Number(f.timeoutS)),
		ReservedConcurrentExecutions: number(f.reserved),
		Environment:                  &f.env,
		Role:                         role,
		LogGroup:                     logs,
		LoggingFormat:                awslambda.LoggingFormat_JSON, // makes the functions' logger write JSON
		// Otherwise three lines of Lambda's own are billed for each invocation.
		SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
	}
	if !option.IsToken(l.props.LogLevel) {
		props.ApplicationLogLevelV2 = awslambda.ApplicationLogLevel(l.props.LogLevel)
	}
	if n := l.props.Network; n.VPC != nil {
		props.Vpc, props.VpcSubnets = n.VPC, n.Subnets
		if len(n.SecurityGroups) > 0 {
			props.SecurityGroups = &n.SecurityGroups
		}
	}
	fn := awslambda.NewFunction(l.Construct, jsii.String(f.id), props)
	if rights != nil {
		fn.Node().AddDependency(rights)
	}
	accept(fn, everywhere("LambdaDLQ", "It is not invoked asynchronously: what its mapping gives up is kept in a "+
		"bucket, and CloudFormation waits for the answer of setup.")...)
	resource := fn.Node().DefaultChild().(awslambda.CfnFunction)
	if level := l.props.LogLevel; option.IsToken(level) { // the construct accepts no token
		resource.AddPropertyOverride(jsii.String("LoggingConfig.ApplicationLogLevel"), level)
	}
	if key := l.props.EnvironmentKey; key != nil {
		// The construct would give the role a second policy.
		resource.SetKmsKeyArn(key.KeyArn())
	}
	if l.props.Tracing {
		// The construct would give the role a second policy.
		resource.SetTracingConfig(&awslambda.CfnFunction_TracingConfigProperty{Mode: jsii.String("Active")})
	}
	return fn, role
}

// newLogGroup declares a function's log group, so we control its retention, and its role needs no
// right to create groups.
func (l *Limiter) newLogGroup(id string) awslogs.LogGroup {
	group := awslogs.NewLogGroup(l.Construct, jsii.String(id), &awslogs.LogGroupProps{
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
		EncryptionKey: l.props.LogKey,
	})
	group.Node().DefaultChild().(awslogs.CfnLogGroup).SetRetentionInDays(jsii.Number(l.props.LogRetentionDays))
	return group
}

// letLogsUseTheirKey extends the policy of the log groups' key, if the key is of this app. The
// policy does not name the groups, because then the groups and the key would depend on each other.
func (l *Limiter) letLogsUseTheirKey() {
	if l.props.LogKey == nil {
		return
	}
	stack := awscdk.Stack_Of(l.Construct)
	groups := stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("logs"), Resource: jsii.String("log-group"), ResourceName: jsii.String("*"),
		ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
	l.props.LogKey.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("logs."+*stack.Region()+"."+*stack.UrlSuffix()), nil),
		},
		Actions: jsii.Strings("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*",
			"kms:ReEncrypt*"),
		Resources: jsii.Strings("*"),
		Conditions: &map[string]any{
			"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": groups},
		},
	}), jsii.Bool(true))
}
