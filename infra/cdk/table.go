package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// newTable declares the single table. Its name is fixed, because clients of both languages find it
// by name.
func (l *Limiter) newTable() awsdynamodb.ITable {
	p := l.props.Table
	recovery := &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)}
	if p.PITRDays != 35 {
		recovery.RecoveryPeriodInDays = jsii.Number(p.PITRDays)
	}
	props := &awsdynamodb.TableProps{
		TableName:                        jsii.String(l.props.TableName),
		PartitionKey:                     stringKey(item.AttrPK),
		SortKey:                          stringKey(item.AttrSK),
		Stream:                           awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES,
		TimeToLiveAttribute:              jsii.String(layout.AttrTTL),
		PointInTimeRecoverySpecification: recovery,
		RemovalPolicy:                    l.keep(),
	}
	if p.provisioned() {
		props.BillingMode = awsdynamodb.BillingMode_PROVISIONED
		props.ReadCapacity, props.WriteCapacity = number(p.MinReadUnits), number(p.MinWriteUnits)
	} else {
		props.BillingMode = awsdynamodb.BillingMode_PAY_PER_REQUEST
		props.MaxReadRequestUnits, props.MaxWriteRequestUnits = number(p.MaxReadUnits), number(p.MaxWriteUnits)
	}
	if p.DeletionProtection {
		props.DeletionProtection = jsii.Bool(true)
	} else if l.props.RemovalPolicy != "destroy" {
		l.warn("deletionProtection", "The table has no deletion protection. Set Table.DeletionProtection once it is "+
			"deployed: a first deployment that fails could not delete it.")
	}
	if p.warmed() {
		props.WarmThroughput = &awsdynamodb.WarmThroughput{
			ReadUnitsPerSecond: jsii.Number(p.WarmReadUnits), WriteUnitsPerSecond: jsii.Number(p.WarmWriteUnits),
		}
	}
	if l.Key != nil {
		props.Encryption, props.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, l.Key
	}
	t := awsdynamodb.NewTable(l.Construct, jsii.String(holding.Table), props)
	p.addIndex(t, layout.IndexGSI1, item.AttrGSI1PK, item.AttrGSI1SK, awsdynamodb.ProjectionType_ALL)
	p.addIndex(t, layout.IndexGSI2, item.AttrGSI2PK, item.AttrGSI2SK, awsdynamodb.ProjectionType(p.GSI2Projection))
	p.addIndex(t, layout.IndexGSI3, item.AttrGSI3PK, item.AttrGSI3SK, awsdynamodb.ProjectionType_KEYS_ONLY)
	p.addIndex(t, layout.IndexGSI4, item.AttrGSI4PK, item.AttrGSI4SK, awsdynamodb.ProjectionType_KEYS_ONLY)
	p.scale(t)
	l.fixLogicalID(t, holding.Table)
	accept(t, everywhere("DynamoDBInBackupPlan", "It can be restored to any second of the last days; a backup plan is "+
		"for the account to choose.")...)
	return t
}

// indexes returns the names of the table's indexes.
func indexes() []string {
	return []string{layout.IndexGSI1, layout.IndexGSI2, layout.IndexGSI3, layout.IndexGSI4}
}

func (p TableProps) addIndex(t awsdynamodb.Table, name, pk, sk string, projection awsdynamodb.ProjectionType) {
	props := &awsdynamodb.GlobalSecondaryIndexProps{
		IndexName:      jsii.String(name),
		PartitionKey:   stringKey(pk),
		SortKey:        stringKey(sk),
		ProjectionType: projection,
	}
	if p.provisioned() {
		props.ReadCapacity, props.WriteCapacity = number(p.MinReadUnits), number(p.MinWriteUnits)
	}
	t.AddGlobalSecondaryIndex(props)
}

// warmed reports whether the table is to serve more than a new one does; then both numbers are declared.
func (p TableProps) warmed() bool { return p.WarmReadUnits != 12000 || p.WarmWriteUnits != 4000 }

func (p TableProps) provisioned() bool { return p.BillingMode == "provisioned" }

// scale makes auto scaling follow the consumption of the table and of each index, within the same
// bounds. An index that cannot follow throttles the table's writes.
func (p TableProps) scale(t awsdynamodb.Table) {
	if !p.provisioned() {
		return
	}
	target := &awsdynamodb.UtilizationScalingProps{TargetUtilizationPercent: number(p.TargetUtilizationPercent)}
	reads := &awsdynamodb.EnableScalingProps{MinCapacity: number(p.MinReadUnits), MaxCapacity: number(p.MaxReadUnits)}
	writes := &awsdynamodb.EnableScalingProps{MinCapacity: number(p.MinWriteUnits), MaxCapacity: number(p.MaxWriteUnits)}
	t.AutoScaleReadCapacity(reads).ScaleOnUtilization(target)
	t.AutoScaleWriteCapacity(writes).ScaleOnUtilization(target)
	for _, index := range indexes() {
		t.AutoScaleGlobalSecondaryIndexReadCapacity(jsii.String(index), reads).ScaleOnUtilization(target)
		t.AutoScaleGlobalSecondaryIndexWriteCapacity(jsii.String(index), writes).ScaleOnUtilization(target)
	}
}

func stringKey(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
}

// number returns nil for zero, so that the number is left out.
func number(n int) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(n)
}
