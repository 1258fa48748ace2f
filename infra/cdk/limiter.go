package cdk

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

// Limiter is everything that [New] has made, and the construct around it. Parts that the properties
// turn off are nil.
type Limiter struct {
	constructs.Construct

	Table               awsdynamodb.ITable
	Key                 awskms.IKey
	ArchiveBucket       awss3.Bucket
	FailedRecordsBucket awss3.Bucket // nil only without both functions

	Aggregator, Archiver, Setup             awslambda.Function
	AggregatorRole, ArchiverRole, SetupRole awsiam.IRole
	AggregatorMapping, ArchiverMapping      awslambda.CfnEventSourceMapping

	Alarms    map[string]awscloudwatch.Alarm // by name, as in docs/operations.md
	Dashboard awscloudwatch.Dashboard
	// NamespaceIDs is name=id of the registered namespaces, separated by commas,
	// known when the stack is deployed; empty if that is longer than 3 KB.
	NamespaceIDs *string
	// Policies are managed policies for applications. NamespacePolicies allow the namespace that the principal's
	// tag [NamespaceTag] names, so that one policy serves all namespaces.
	Policies, NamespacePolicies map[Policy]awsiam.ManagedPolicy

	props *Props // with defaults
}

// New declares a limiter in the scope. Nil props are the zero value. It panics
// with everything that [Props.Validate] finds, as constructs do.
//
// The logical ids of the table and the buckets are fixed to the scope's id and
// theirs, so that a change inside this package can never replace them. Two
// limiters in one stack need two ids and two table names.
func New(scope constructs.Construct, id string, props *Props) *Limiter {
	if err := props.Validate(); err != nil {
		panic(fmt.Errorf("properties of limiter %q:\n%w", id, err))
	}
	l := &Limiter{props: props.withDefaults()}
	constructs.NewConstruct_Override(l, scope, jsii.String(id))
	l.Key = l.props.Key
	l.letLogsUseTheirKey()
	l.Table = l.props.ExistingTable
	if l.Table == nil {
		l.Table = l.newTable()
	} else {
		l.Node().AddValidation(&elsewhere{l})
	}
	if !l.props.Aggregator.Off || !l.props.Archiver.Off {
		l.FailedRecordsBucket = l.newBucket(holding.FailedRecords, nil, false)
	}
	if !l.props.Aggregator.Off {
		l.addAggregator()
	}
	if !l.props.Archiver.Off {
		l.ArchiveBucket = l.newBucket(holding.Archive, l.archiveLifecycle(), l.props.ArchiveVersioned)
		l.addArchiver()
	}
	if len(l.props.Namespaces) > 0 {
		l.addSetup()
	}
	if !l.props.IAM.PoliciesOff {
		l.addPolicies()
	}
	if !l.props.Alarms.Off {
		l.addAlarms()
	}
	if !l.props.DashboardOff {
		l.addDashboard()
	}
	for name, value := range l.props.Tags {
		awscdk.Tags_Of(l.Construct).Add(jsii.String(name), jsii.String(value), nil)
	}
	return l
}

// child returns the ids of the construct and its ancestors in the stack, followed by name, without
// ids "Default" and without characters that are invalid in a logical id. It makes the logical ids
// that must never change.
func (l *Limiter) child(name string) *string {
	id := ""
	for node := constructs.Construct(l); !isStack(node); node = node.Node().Scope().(constructs.Construct) {
		if own := *node.Node().Id(); own != "Default" {
			id = own + id
		}
	}
	return jsii.String(noLogicalID.ReplaceAllString(id, "") + name)
}

var noLogicalID = regexp.MustCompile(`[^A-Za-z0-9]`)

func isStack(c constructs.Construct) bool { return *awscdk.Stack_IsStack(c) }

// fixLogicalID pins the logical id of a resource that holds data.
func (l *Limiter) fixLogicalID(c constructs.Construct, id string) {
	c.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(l.child(id))
}

// keep returns the removal policy of resources that hold data. If a first deployment fails, its
// resources are deleted: they are empty, and would obstruct the next deployment.
func (l *Limiter) keep() awscdk.RemovalPolicy {
	if l.props.RemovalPolicy == "destroy" {
		return awscdk.RemovalPolicy_DESTROY
	}
	return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
}
