package cdk_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Two limiters share a stack with constructs whose attributes are known only after deployment.
func TestTwoLimitersUseUnknownAttributes(t *testing.T) {
	s := newStacks(t)
	in := s.platform
	key, page, mail := s.key(in, "Key"), s.topic("Page"), s.topic("Mail")
	role, keeper := s.role("Worker"), s.role("Keeper")
	bounds := awsiam.NewManagedPolicy(in, jsii.String("Bounds"), &awsiam.ManagedPolicyProps{
		Statements: &[]awsiam.PolicyStatement{awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("*"), Resources: jsii.Strings("*"),
		})},
	})
	vpc := awsec2.NewVpc(in, jsii.String("Network"), nil)
	group := awsec2.NewSecurityGroup(in, jsii.String("Inside"), &awsec2.SecurityGroupProps{Vpc: vpc})
	level := *awscdk.NewCfnParameter(in, jsii.String("Level"), nil).ValueAsString()
	stage := *awscdk.NewCfnParameter(in, jsii.String("Stage"), nil).ValueAsString()
	names := *awscdk.Aws_STACK_NAME() + "-" + *awscdk.Aws_REGION() + "-{}"
	for _, id := range []string{"Blue", "Green"} {
		limits := cdk.New(in, id, &cdk.Props{
			TableName:  id + "-" + stage,
			Code:       s.code(),
			Namespaces: []string{stage},
			Key:        key, LogKey: key, EnvironmentKey: key,
			LogLevel:   level,
			Aggregator: cdk.AggregatorProps{Role: role},
			Archiver:   cdk.ArchiverProps{Role: keeper},
			Alarms:     cdk.AlarmProps{Topic: mail, UrgentTopic: page},
			IAM:        cdk.IAMProps{PermissionBoundary: bounds, RoleNameFormat: "x-{}", PolicyNameFormat: names},
			Network: cdk.NetworkProps{VPC: vpc, Subnets: &awsec2.SubnetSelection{Subnets: vpc.PrivateSubnets()},
				SecurityGroups: []awsec2.ISecurityGroup{group}},
			Tags: map[string]string{"stage": stage},
		})
		limits.Grant(role, cdk.Acquire)
	}
	check.Must(t, s.synth())
	text, err := os.ReadFile(filepath.Join(s.dir, "Platform.template.json"))
	check.Must(t, err)
	var doc struct {
		Resources map[string]struct{ Type string }
	}
	check.Must(t, json.Unmarshal(text, &doc))
	kinds := map[string]int{}
	for _, r := range doc.Resources {
		kinds[r.Type]++
	}
	for kind, want := range map[string]int{"AWS::DynamoDB::Table": 2, "AWS::S3::Bucket": 4, "AWS::Logs::LogGroup": 6,
		"AWS::KMS::Key": 1, "AWS::Lambda::Function": 6, "AWS::EC2::SecurityGroup": 1} {
		check.Equal(t, kinds[kind], want, kind)
	}
	var all bytes.Buffer
	check.Must(t, json.Compact(&all, text))
	for what, want := range map[string]string{
		"name of a table":      `"TableName":{"Fn::Join":["",["Green-",{"Ref":"Stage"}]]}`,
		"key of the logs":      `"kms:EncryptionContext:aws:logs:arn"`,
		"who logs":             `"Service":{"Fn::Join":["",["logs.",{"Ref":"AWS::Region"},".",{"Ref":"AWS::URLSuffix"}]]}`,
		"rights of the worker": `"dynamodb:LeadingKeys":["*/BUCKET#*","*/ENTITY#*","_/OWED#"]`,
		"level of the logs":    `"ApplicationLogLevel":{"Ref":"Level"}`,
		"boundary of a role":   `"PermissionsBoundary":{"Ref":"Bounds`,
		"rights of the keeper": `"Roles":[{"Ref":"Keeper`,
		"name of a policy": `"ManagedPolicyName":{"Fn::Join":["",[{"Ref":"AWS::StackName"},"-",{"Ref":"AWS::Region"},` +
			`"-Green-",`,
		"network":            `"VpcConfig":{"SecurityGroupIds":[{"Fn::GetAtt":["Inside`,
		"subnets":            `"SubnetIds":[{"Ref":"NetworkPrivateSubnet1`,
		"network interfaces": `"ec2:CreateNetworkInterface"`,
		"use of the key":     `"kms:ViaService":{"Fn::Join":["",["dynamodb.",{"Ref":"AWS::Region"},".amazonaws.com"]]}`,
	} {
		if !bytes.Contains(all.Bytes(), []byte(want)) {
			t.Errorf("%s: the template does not say %s", what, want)
		}
	}
}
