package main

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

// resources fills in the existing resources.
func (o options) resources(stack awscdk.Stack, p *cdk.Props) {
	key := func(id, arn string) awskms.IKey {
		if arn == "" {
			return nil
		}
		return awskms.Key_FromKeyArn(stack, jsii.String(id), jsii.String(arn))
	}
	p.Key, p.LogKey, p.EnvironmentKey = key("Key", o.KeyARN), key("LogKey", o.LogKeyARN), key("EnvironmentKey",
		o.EnvironmentKeyARN)
	role := func(id, arn string) awsiam.IRole {
		if arn == "" {
			return nil
		}
		return awsiam.Role_FromRoleArn(stack, jsii.String(id), jsii.String(arn),
			&awsiam.FromRoleArnOptions{Mutable: jsii.Bool(false)})
	}
	p.Aggregator.Role, p.Archiver.Role = role("AggregatorRole", o.AggregatorRoleARN), role("ArchiverRole",
		o.ArchiverRoleARN)
	p.Setup.Role = role("SetupRole", o.SetupRoleARN)
	topic := func(id, arn string) awssns.ITopic {
		if arn == "" {
			return nil
		}
		return awssns.Topic_FromTopicArn(stack, jsii.String(id), jsii.String(arn))
	}
	p.Alarms.Topic, p.Alarms.UrgentTopic = topic("AlarmTopic", o.AlarmTopicARN), topic("UrgentTopic", o.UrgentTopicARN)
	if arn := o.AlertTargetARN; strings.Contains(arn, ":event-bus/") {
		p.Alerts.Bus = awsevents.EventBus_FromEventBusArn(stack, jsii.String("AlertBus"), jsii.String(arn))
	} else {
		p.Alerts.Topic = topic("AlertTopic", arn)
	}
	switch b := jsii.String(o.PermissionBoundary); {
	case *b == "":
	case strings.HasPrefix(*b, "arn:"):
		p.IAM.PermissionBoundary = awsiam.ManagedPolicy_FromManagedPolicyArn(stack, jsii.String("Boundary"), b)
	default:
		p.IAM.PermissionBoundary = awsiam.ManagedPolicy_FromManagedPolicyName(stack, jsii.String("Boundary"), b)
	}
	if o.VPCID != "" {
		p.Network = o.network(stack)
	}
}

// network returns a VPC without any look-up, because synthesis needs no credentials.
func (o options) network(stack awscdk.Stack) cdk.NetworkProps {
	var subnets []awsec2.ISubnet
	for i, id := range o.SubnetIDs {
		subnets = append(subnets, awsec2.Subnet_FromSubnetAttributes(stack, jsii.String(fmt.Sprintf("Subnet%d", i)),
			&awsec2.SubnetAttributes{SubnetId: jsii.String(id), RouteTableId: jsii.String("unknown")}))
	}
	var groups []awsec2.ISecurityGroup
	for i, id := range o.SecurityGroupIDs {
		groups = append(groups, awsec2.SecurityGroup_FromSecurityGroupId(stack, jsii.String(fmt.Sprintf("Group%d", i)),
			jsii.String(id), &awsec2.SecurityGroupImportOptions{Mutable: jsii.Bool(false)}))
	}
	vpc := awsec2.Vpc_FromVpcAttributes(stack, jsii.String("VPC"), &awsec2.VpcAttributes{
		VpcId: jsii.String(o.VPCID), AvailabilityZones: jsii.Strings("unknown"),
	})
	return cdk.NetworkProps{VPC: vpc, Subnets: &awsec2.SubnetSelection{Subnets: &subnets}, SecurityGroups: groups}
}
