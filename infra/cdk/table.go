package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// newTable declares the single table. It is named like the stack, because that
// is how clients of either language find it, and it outlives the stack.
//
// Its logical id is fixed: moving it in the construct tree must never make
// CloudFormation replace it.
func newTable(scope constructs.Construct, opts options) awsdynamodb.Table {
	t := awsdynamodb.NewTable(scope, jsii.String("Table"), &awsdynamodb.TableProps{
		TableName:           jsii.String(opts.StackName),
		PartitionKey:        stringKey(item.AttrPK),
		SortKey:             stringKey(item.AttrSK),
		BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
		Stream:              awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES,
		TimeToLiveAttribute: jsii.String(table.AttrTTL),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
	})
	addIndex(t, table.IndexGSI1, item.AttrGSI1PK, item.AttrGSI1SK, awsdynamodb.ProjectionType_ALL)
	addIndex(t, table.IndexGSI2, item.AttrGSI2PK, item.AttrGSI2SK, opts.GSI2Projection)
	addIndex(t, table.IndexGSI3, item.AttrGSI3PK, item.AttrGSI3SK, awsdynamodb.ProjectionType_KEYS_ONLY)
	addIndex(t, table.IndexGSI4, item.AttrGSI4PK, item.AttrGSI4SK, awsdynamodb.ProjectionType_KEYS_ONLY)
	fixLogicalID(t, "Table")
	return t
}

func addIndex(t awsdynamodb.Table, name, pk, sk string, projection awsdynamodb.ProjectionType) {
	t.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
		IndexName:      jsii.String(name),
		PartitionKey:   stringKey(pk),
		SortKey:        stringKey(sk),
		ProjectionType: projection,
	})
}

func stringKey(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{
		Name: jsii.String(name),
		Type: awsdynamodb.AttributeType_STRING,
	}
}

// fixLogicalID pins the logical id of a resource that keeps data, so that a
// change of the construct tree cannot replace it.
func fixLogicalID(c constructs.Construct, id string) {
	c.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(jsii.String(id))
}
