package cdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/release"
)

// platform is an app of somebody else's: two limiters in one stack, beside constructs
// of which they take attributes that nobody knows before the deployment.
const platform = `package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

func main() {
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String("out")})
	stack := awscdk.NewStack(app, jsii.String("Platform"), nil)
	key := awskms.NewKey(stack, jsii.String("Key"), nil)
	page := awssns.NewTopic(stack, jsii.String("Page"), nil)
	mail := awssns.NewTopic(stack, jsii.String("Mail"), nil)
	lambda := awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)
	role := awsiam.NewRole(stack, jsii.String("Worker"), &awsiam.RoleProps{AssumedBy: lambda})
	keeper := awsiam.NewRole(stack, jsii.String("Keeper"), &awsiam.RoleProps{AssumedBy: lambda})
	bounds := awsiam.NewManagedPolicy(stack, jsii.String("Bounds"), &awsiam.ManagedPolicyProps{
		Statements: &[]awsiam.PolicyStatement{awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("*"), Resources: jsii.Strings("*"),
		})},
	})
	vpc := awsec2.NewVpc(stack, jsii.String("Network"), nil)
	group := awsec2.NewSecurityGroup(stack, jsii.String("Inside"), &awsec2.SecurityGroupProps{Vpc: vpc})
	level := awscdk.NewCfnParameter(stack, jsii.String("Level"), nil).ValueAsString()
	stage := awscdk.NewCfnParameter(stack, jsii.String("Stage"), nil).ValueAsString()
	names := *awscdk.Aws_STACK_NAME() + "-" + *awscdk.Aws_REGION() + "-{}"
	program := awslambda.Code_FromAsset(jsii.String("program"), nil)
	for _, id := range []string{"Blue", "Green"} {
		limits := cdk.New(stack, id, &cdk.Props{
			TableName:  id + "-" + *stage,
			Code:       cdk.Code{Aggregator: program, Archiver: program, Setup: program},
			Namespaces: []string{*stage},
			Key:        key, LogKey: key, EnvironmentKey: key,
			LogLevel:   *level,
			Aggregator: cdk.AggregatorProps{Role: role},
			Archiver:   cdk.ArchiverProps{Role: keeper},
			Alarms:     cdk.AlarmProps{Topic: mail, UrgentTopic: page},
			IAM:        cdk.IAMProps{PermissionBoundary: bounds, RoleNameFormat: "x-{}", PolicyNameFormat: names},
			Network: cdk.NetworkProps{VPC: vpc, Subnets: &awsec2.SubnetSelection{Subnets: vpc.PrivateSubnets()},
				SecurityGroups: []awsec2.ISecurityGroup{group}},
			Tags:       map[string]string{"stage": *stage},
		})
		limits.Grant(role, cdk.Acquire)
	}
	app.Synth(nil)
}
`

// TestAnotherModuleImportsTheConstruct makes a release of both modules as the README
// tells, and a module elsewhere that requires it and has no replace, and synthesizes
// what that declares.
func TestAnotherModuleImportsTheConstruct(t *testing.T) {
	version := fmt.Sprintf("v0.0.0-%s-000000000000", time.Now().UTC().Format("20060102150405"))
	proxy, elsewhere := t.TempDir(), t.TempDir()
	if err := release.Publish(proxy, filepath.Join("..", ".."), version, "", "infra/cdk"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release.Forget(version); err != nil {
			t.Error(err)
		}
	})
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Replace(release.Mod(string(mod), version), release.Module("infra/cdk"), "example.com/platform", 1)
	own += "\nrequire " + release.Module("infra/cdk") + " " + version + "\n"
	for name, text := range map[string]string{
		"go.mod": own, "go.sum": string(sum),
		"main.go": platform, "program/bootstrap": "program",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(elsewhere, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(elsewhere, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env, err := release.Environ(proxy)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "-mod=mod", ".")
	cmd.Dir = elsewhere
	cmd.Env = append(env, "CDK_HOME="+elsewhere)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go run: %v\n%s", err, out)
	}
	twoLimiters(t, filepath.Join(elsewhere, "out", "Platform.template.json"))
}

// twoLimiters looks at what the two have made of the other constructs.
func twoLimiters(t *testing.T, template string) {
	t.Helper()
	text, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Resources map[string]struct{ Type string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, r := range doc.Resources {
		kinds[r.Type]++
	}
	for kind, want := range map[string]int{"AWS::DynamoDB::Table": 2, "AWS::S3::Bucket": 4, "AWS::Logs::LogGroup": 6,
		"AWS::KMS::Key": 1, "AWS::Lambda::Function": 6, "AWS::EC2::SecurityGroup": 1} {
		if kinds[kind] != want {
			t.Errorf("%d of %s, want %d", kinds[kind], kind, want)
		}
	}
	var all bytes.Buffer
	if err := json.Compact(&all, text); err != nil {
		t.Fatal(err)
	}
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
