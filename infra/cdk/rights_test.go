package cdk_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// The resources that a limiter uses from another stack, and its permissions there, leave an order
// in which both stacks can be deployed.
func TestTwoStacksCanBeDeployedInAnOrder(t *testing.T) {
	const policies = "AWS::IAM::Policy"
	usual := func(s *stacks) { cdk.New(s.limits, "Limits", &s.props).Grant(s.role("App"), cdk.Acquire) }
	for _, c := range []struct {
		name    string
		props   func(s *stacks)
		declare func(s *stacks)
		rights  string // the stack with the policies
	}{
		{"roles of the functions", nil, func(s *stacks) {
			s.props.Aggregator.Role, s.props.Archiver.Role, s.props.Setup.Role = s.role("A"), s.role("B"), s.role("C")
			cdk.New(s.limits, "Limits", &s.props)
		}, "Limits"},
		{"one role for all", nil, func(s *stacks) {
			role := s.role("All")
			s.props.Aggregator.Role, s.props.Archiver.Role, s.props.Setup.Role = role, role, role
			cdk.New(s.limits, "Limits", &s.props).Grant(role, cdk.Acquire)
		}, "Limits"},
		{"a grant to a role whose stack owns the key", func(s *stacks) {
			s.props.Key = s.key(s.platform, "Key")
		}, usual, "Limits"},
		{"a grant to a role whose stack owns the topic, with a key of the limiter's stack", nil, func(s *stacks) {
			s.props.Alarms.Topic, s.props.Key = s.topic("Mail"), s.key(s.limits, "Key")
			l := cdk.New(s.limits, "Limits", &s.props)
			role := s.role("App")
			l.Grant(role, cdk.Acquire)
			l.Grant(role, cdk.Read, "ns1")
		}, "Limits"},
		{"a topic of alerts", func(s *stacks) { s.props.Alerts.Topic = s.topic("Alerts") }, usual, "Limits"},
		{"a user, and a function as the grantee", nil, func(s *stacks) {
			s.props.Alarms.UrgentTopic = s.topic("Page")
			l := cdk.New(s.limits, "Limits", &s.props)
			l.Grant(awsiam.NewUser(s.platform, jsii.String("User"), nil), cdk.Admin)
			l.Grant(awslambda.NewFunction(s.platform, jsii.String("App"), &awslambda.FunctionProps{
				Runtime: awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String("bootstrap"),
				Code: s.code().Setup}), cdk.Acquire)
		}, "Limits"},
		{"a key of logs", func(s *stacks) { s.props.LogKey = s.key(s.platform, "Logs") }, usual, "Limits"},
		{"a key of environments", func(s *stacks) {
			s.props.EnvironmentKey = s.key(s.platform, "Environments")
		}, usual, "Limits"},
		{"a network", func(s *stacks) {
			s.props.Network.VPC = awsec2.NewVpc(s.platform, jsii.String("VPC"), nil)
		}, usual, "Limits"},
		{"a security group of a network that is imported", func(s *stacks) {
			zones := jsii.Strings("eu-west-1a")
			vpc := awsec2.Vpc_FromVpcAttributes(s.limits, jsii.String("VPC"), &awsec2.VpcAttributes{
				VpcId: jsii.String("vpc-1"), AvailabilityZones: zones, PrivateSubnetIds: jsii.Strings("subnet-1")})
			s.props.Network = cdk.NetworkProps{VPC: vpc, SecurityGroups: []awsec2.ISecurityGroup{
				awsec2.NewSecurityGroup(s.platform, jsii.String("Group"), &awsec2.SecurityGroupProps{Vpc: vpc})}}
		}, usual, "Limits"},
		{"subnets of a network that is imported", func(s *stacks) {
			vpc := awsec2.Vpc_FromVpcAttributes(s.limits, jsii.String("VPC"), &awsec2.VpcAttributes{
				VpcId: jsii.String("vpc-1"), AvailabilityZones: jsii.Strings("eu-west-1a")})
			s.props.Network = cdk.NetworkProps{VPC: vpc, Subnets: &awsec2.SubnetSelection{
				Subnets: awsec2.NewVpc(s.platform, jsii.String("Network"), nil).PrivateSubnets()}}
		}, usual, "Limits"},
		{"programs in a bucket", func(s *stacks) {
			code := awslambda.Code_FromBucket(awss3.NewBucket(s.platform, jsii.String("Programs"), nil),
				jsii.String("setup.zip"), nil)
			s.props.Code.Setup = code
		}, usual, "Limits"},
		{"programs of functions that are off", func(s *stacks) {
			s.props.Code = cdk.Code{Aggregator: s.code().Setup, Archiver: s.code().Setup, Setup: s.code().Setup}
			s.props.Aggregator.Off, s.props.Archiver.Off = true, true
		}, usual, "Platform"},
		{"a boundary", func(s *stacks) {
			s.props.IAM.PermissionBoundary = awsiam.NewManagedPolicy(s.platform, jsii.String("Bounds"),
				&awsiam.ManagedPolicyProps{Statements: &[]awsiam.PolicyStatement{awsiam.NewPolicyStatement(
					&awsiam.PolicyStatementProps{Actions: jsii.Strings("*"), Resources: jsii.Strings("*")})}})
		}, usual, "Limits"},
		{"a table", func(s *stacks) { s.props.ExistingTable = existing(s.platform, nil) }, usual, "Limits"},
		{"the key of a table of a third stack", func(s *stacks) {
			tables := awscdk.NewStack(s.app, jsii.String("Tables"), nil)
			s.props.ExistingTable = existing(tables, func(p *awsdynamodb.TableProps) {
				p.Encryption, p.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, s.key(s.platform, "Key")
			})
		}, usual, "Limits"},
		{"a text", func(s *stacks) {
			s.props.TableName = "limits-" + *s.topic("Named").TopicName()
		}, usual, "Limits"},
		{"an order set by the app", func(s *stacks) {
			s.limits.AddDependency(s.platform, nil)
		}, usual, "Limits"},
		{"a grant to a role whose stack names the table", nil, func(s *stacks) {
			l := cdk.New(s.limits, "Limits", &s.props)
			l.Grant(s.role("App"), cdk.Acquire)
			awscdk.NewCfnOutput(s.platform, jsii.String("Out"), &awscdk.CfnOutputProps{Value: l.Table.TableName()})
		}, "Platform"},
		{"a role that is imported where the key is made", nil, func(s *stacks) {
			s.props.Key = s.key(s.platform, "Key")
			cdk.New(s.limits, "Limits", &s.props).Grant(awsiam.Role_FromRoleArn(s.platform, jsii.String("App"),
				jsii.String("arn:aws:iam::123456789012:role/app"), nil), cdk.Acquire)
		}, "Limits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStacks(t)
			if c.props != nil {
				c.props(s)
			}
			c.declare(s)
			check.Must(t, s.synth())
			for _, stack := range []string{"Platform", "Limits"} {
				got := strings.Contains(s.template(t, stack)[policies], "dynamodb:UpdateItem")
				check.Equal(t, got, stack == c.rights, "%s has the rights", stack)
			}
		})
	}
}

// Two limiters give permissions to one role under two names, otherwise the second deployment would
// replace the first's. The same holds for a stack deployed in another region, where the role is the
// same.
func TestTwoLimitersGiveRightsToOneRole(t *testing.T) {
	s := newStacks(t)
	role := s.role("Shared")
	s.props.Aggregator.Role = role
	cdk.New(s.limits, "Limits", &s.props)
	other := awscdk.NewStack(s.app, jsii.String("Others"), nil)
	s.props.Code = s.code()
	cdk.New(other, "Limits", &s.props)
	check.Must(t, s.synth())
	names := map[string]bool{}
	for _, stack := range []string{"Limits", "Others"} {
		text := s.template(t, stack)
		_, name, _ := strings.Cut(text["AWS::IAM::Policy"], `"PolicyName":`)
		name, _, _ = strings.Cut(name, `"Roles"`)
		names[name] = strings.Contains(name, `{"Ref":"AWS::Region"}`)
		if !strings.Contains(text["AWS::Lambda::Function"], `"DependsOn":["LimitsAggregatorRoleRights`) {
			t.Errorf("%s: the function does not depend on its permissions", stack)
		}
	}
	for name, ofRegion := range names {
		if len(names) != 2 || !ofRegion {
			t.Errorf("%q of %d names, want two, each with its region", name, len(names))
		}
	}
}

// A role that is imported twice gets two policies with two names, otherwise the second would replace
// the first.
func TestOneRoleIsImportedTwice(t *testing.T) {
	s := newStacks(t)
	s.props.Key = s.key(s.platform, "Key")
	l := cdk.New(s.limits, "Limits", &s.props)
	for _, id := range []string{"Writer", "Reader"} {
		arn := jsii.String("arn:aws:iam::123456789012:role/app")
		l.Grant(awsiam.Role_FromRoleArn(s.platform, jsii.String(id), arn, nil), cdk.Acquire)
	}
	check.Must(t, s.synth())
	names := map[string]bool{}
	for _, after := range strings.Split(s.template(t, "Limits")["AWS::IAM::Policy"], `"PolicyName":`)[1:] {
		name, _, _ := strings.Cut(after, `"Roles"`)
		check.Equal(t, names[name], false, name)
		names[name] = true
	}
	if len(names) < 2 {
		t.Errorf("%d policies, want two for the role", len(names))
	}
}
