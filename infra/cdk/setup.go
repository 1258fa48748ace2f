package cdk

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// setupType is the type of the custom resource that registers namespaces and
// writes the version record.
const setupType = "Custom::ZaeLimiterSetup"

// addSetup declares the function that registers namespaces and writes the
// version record, and the custom resource that invokes it: on the first
// deployment, and whenever its properties change. Doing it again changes
// nothing, and deleting it does nothing.
//
// The function can read and write the table's own namespace and the system
// configuration of others, no bucket and no limit of any entity.
func (l *Limiter) addSetup() {
	logs := l.newLogGroup("SetupLogs")
	records := allow([]string{"dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}, l.Table.TableArn())
	records.AddConditions(&map[string]any{
		"ForAllValues:StringLike": map[string]any{"dynamodb:LeadingKeys": []string{"*" + table.SystemPKSuffix}},
	})
	l.SetupRole = l.newRole("SetupRole", "setup", l.props.SetupRoleARN,
		append(l.keyStatements(), logStatement(logs), records))
	l.Setup = l.newFunction(function{
		id:          "Setup",
		description: "Registers namespaces and writes the version record when the stack is deployed.",
		code:        code("setup", l.props.Code.Setup),
		memoryMiB:   128,
		timeoutS:    60,
		env:         map[string]*string{config.EnvTableName: l.Table.TableName()},
		role:        l.SetupRole,
		logs:        logs,
	})
	properties := map[string]any{
		config.SetupNamespaces:       l.props.Namespaces,
		config.SetupAuditRetention:   strconv.Itoa(l.props.AuditRetentionDays),
		config.SetupSchemaVersion:    namespace.Schema,
		config.SetupResourceRevision: "1", // raise it to have the function run again everywhere
	}
	setup := awscdk.NewCustomResource(l.Construct, jsii.String("Namespaces"), &awscdk.CustomResourceProps{
		ResourceType: jsii.String(setupType),
		// A function that cannot even start answers nothing, and CloudFormation
		// would wait for an hour.
		ServiceTimeout: awscdk.Duration_Minutes(jsii.Number(5)),
		ServiceToken:   l.Setup.FunctionArn(),
		Properties:     &properties,
	})
	l.NamespaceIDs = setup.GetAttString(jsii.String(config.SetupNamespaceIDs))
}
