package cdk

import (
	"slices"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
)

// setupType is the type of the custom resource that registers namespaces and writes the version
// record.
const setupType = "Custom::ZaeLimiterSetup"

const (
	// setupTimeoutS is enough for a manifest of a thousand limits.
	setupTimeoutS = 240

	// setupEventAgeS is how long Lambda tries to begin an invocation that waits for concurrency,
	// and repeats one whose answer was lost.
	setupEventAgeS = 300

	// setupWaitS is how long CloudFormation waits for an answer. Then it rolls back, and nothing
	// may follow. The default is an hour, even for a function that cannot start.
	setupWaitS = 600
)

// addSetup declares the function that registers namespaces, writes the version record and applies
// manifests, and the custom resource that invokes it: on the first deployment, and whenever its
// properties change, for example with another table or stream. Repeating it changes nothing.
func (l *Limiter) addSetup() {
	l.Setup, l.SetupRole = l.newFunction(program{
		id:          "Setup",
		description: "Registers namespaces, writes the version record and applies limits when the stack is deployed.",
		code:        l.props.Code.Setup,
		memoryMiB:   128,
		timeoutS:    setupTimeoutS,
		reserved:    l.props.Setup.ReservedConcurrency,
		env:         map[string]*string{function.EnvTableName: l.Table.TableName()},
		role:        l.props.Setup.Role,
		rights: func(logs awslogs.LogGroup) []statement {
			return slices.Concat(l.keyOfTable(true), []statement{logStatement(logs)}, l.setupStatements())
		},
	})
	l.Setup.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{
		MaxEventAge: awscdk.Duration_Seconds(jsii.Number(setupEventAgeS)),
	})
	properties := map[string]any{
		function.SetupTable:            l.Table.TableName(),
		function.SetupNamespaces:       l.props.Namespaces,
		function.SetupAuditRetention:   strconv.Itoa(l.props.AuditRetentionDays),
		function.SetupSchemaVersion:    namespace.Schema,
		function.SetupResourceRevision: "1", // increase it to make the function run again everywhere
	}
	if stream := l.Table.TableStreamArn(); stream != nil {
		properties[function.SetupStream] = stream
	}
	if len(l.props.Manifests) > 0 {
		properties[function.SetupManifests] = l.props.Manifests
	}
	setup := awscdk.NewCustomResource(l.Construct, jsii.String("Namespaces"), &awscdk.CustomResourceProps{
		ResourceType:   jsii.String(setupType),
		ServiceTimeout: awscdk.Duration_Seconds(jsii.Number(setupWaitS)),
		// Its deletion does nothing, and an unanswered one would keep the stack from being deleted.
		RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
		ServiceToken:  l.Setup.FunctionArn(),
		Properties:    &properties,
	})
	l.NamespaceIDs = setup.GetAttString(jsii.String(function.SetupNamespaceIDs))
}

// aggregatorStatements returns the aggregator's rights on the table: to read and write buckets,
// usage and the lists of owed sums. Usage has the partition key of its entity, so IAM cannot
// exclude the entity's limits; everything else is inaccessible.
func (l *Limiter) aggregatorStatements() []statement {
	buckets, entities := "*"+bucketKeys, "*/"+layout.EntityPKPart+"*"
	on := func(keys []string, actions ...string) statement {
		return under(allow(actions, l.Table.TableArn()), keys...)
	}
	return []statement{
		on([]string{buckets, entities, ledger.OwedPK}, "dynamodb:BatchGetItem", "dynamodb:Query",
			"dynamodb:PutItem", "dynamodb:UpdateItem"),
		on([]string{buckets}, "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem"), // shards split and merge
	}
}

// setupStatements returns the setup function's rights on the table. Without manifests it can read
// and write the table's own namespace and the system configuration of others, but no buckets and no
// limits of entities. Manifests need the rights of an administration that registers no namespaces:
// limits are stored with their audit events, and applied to existing buckets.
func (l *Limiter) setupStatements() []statement {
	actions := []string{"dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
	look := allow([]string{"dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"}, l.Table.TableArn())
	if len(l.props.Manifests) == 0 {
		records := under(allow(actions, l.Table.TableArn()), "*"+layout.SystemPKSuffix)
		return []statement{look, records}
	}
	return []statement{
		look,
		allow(append(actions, "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem"), l.Table.TableArn()),
		allow(queryActions, l.indexArns()...), // buckets, and the children of entities to delete
	}
}
