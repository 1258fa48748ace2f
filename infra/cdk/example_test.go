package cdk_test

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

// What stands on the pages; it is only compiled, because it needs an app.

func ExampleNew() {
	_ = func(stack awscdk.Stack, appRole awsiam.IRole, onCall awssns.ITopic) {
		limits := cdk.New(stack, "Limits", &cdk.Props{
			TableName: "prod-limits",
			Alarms:    cdk.AlarmProps{Topic: onCall},
		})
		limits.Grant(appRole, cdk.Acquire)
	}
}

func ExampleNew_migrating() {
	_ = func(stack awscdk.Stack, table awsdynamodb.ITable) {
		limits := cdk.New(stack, "Limits", &cdk.Props{ExistingTable: table, MaxShards: 1})
		limits.AggregatorMapping.SetEnabled(jsii.Bool(false))
	}
}
