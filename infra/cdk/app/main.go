// The CDK app: one stack that contains only a limiter. The CDK command-line tool starts it
// (cdk.json at the repository root). It needs no credentials to synthesize. With credentials, it
// reads the deployed template from CloudFormation, to refuse an update that would lose the table.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

func main() {
	err := os.Chdir(root)
	if err == nil {
		err = run("dist", os.Getenv("CDK_OUTDIR"))
		jsii.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// root is the repository root relative to infra/cdk, in which cdk.json starts the app. The
// command-line tool runs in the root, and every file name that it passes in the environment is
// relative to it. So the app changes to it before the constructs start.
const root = "../.."

// run synthesizes the stack to out, with the functions in dist and the options in the app's
// context. An empty out is CDK's default. If it returns an error, it leaves no template that could
// be deployed.
func run(dist, out string) error {
	props := &awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)}
	if out != "" {
		props.Outdir = jsii.String(out)
	}
	app := awscdk.NewApp(props)
	given, _ := app.Node().GetAllContext(nil).(map[string]any)
	opts, err := optionsFromContext(given)
	if err := errors.Join(err, checkBuilt(dist, "aggregator", "archiver", "setup")); err != nil {
		return err
	}
	stack := newStack(app, opts, dist)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Reports: jsii.Bool(false)}), nil)
	assembly := app.Synth(nil)
	template, err := os.ReadFile(*assembly.GetStackArtifact(stack.ArtifactId()).TemplateFullPath())
	if err != nil {
		return err
	}
	err = checkUpdate(context.Background(), opts, template)
	if err != nil {
		err = errors.Join(err, os.RemoveAll(*assembly.Directory()))
	}
	return err
}

// newStack builds the app's only stack. dist holds aggregator/bootstrap, archiver/bootstrap and
// setup/bootstrap.
func newStack(scope constructs.Construct, opts options, dist string) awscdk.Stack {
	stack := awscdk.NewStack(scope, jsii.String(opts.StackName), &awscdk.StackProps{
		Description:           jsii.String("Rate limiter: token buckets in DynamoDB, stream aggregator, audit archiver."),
		TerminationProtection: jsii.Bool(opts.TerminationProtection),
	})
	props := opts.Limiter
	props.Code = cdk.Code{
		Aggregator: programIn(dist, "aggregator"), Archiver: programIn(dist, "archiver"), Setup: programIn(dist, "setup"),
	}
	if opts.ExistingStreamARN != "" {
		table := &awsdynamodb.TableAttributes{
			TableArn: jsii.String(tableOfStream(opts.ExistingStreamARN)), TableStreamArn: jsii.String(opts.ExistingStreamARN),
		}
		props.ExistingTable = awsdynamodb.Table_FromTableAttributes(stack, jsii.String("ExistingTable"), table)
	}
	opts.resources(stack, &props)
	// The id "Default" is left out of logical ids, so they are the same as without a construct in
	// between.
	l := cdk.New(stack, "Default", &props)

	output(stack, "TableName", "Table of buckets, limits and usage; clients open it by this name.", l.Table.TableName())
	output(stack, "StreamArn", "Stream of the table, read by both functions.", l.Table.TableStreamArn())
	if l.Aggregator != nil {
		output(stack, "AggregatorFunctionName", "Function that counts usage, refills and splits buckets.",
			l.Aggregator.FunctionName())
	}
	if l.Archiver != nil {
		output(stack, "ArchiverFunctionName", "Function that archives expired audit events.", l.Archiver.FunctionName())
		output(stack, "ArchiveBucketName", "Bucket of archived audit events.", l.ArchiveBucket.BucketName())
	}
	if l.FailedRecordsBucket != nil {
		output(stack, "FailedRecordsBucketName", "Bucket of batches that were given up, with their payload.",
			l.FailedRecordsBucket.BucketName())
	}
	if l.NamespaceIDs != nil {
		output(stack, "NamespaceIds", "Namespaces that the deployment has registered: name=id.", l.NamespaceIDs)
	}
	policyOutputs(stack, "", l.Policies)
	policyOutputs(stack, "namespace-", l.NamespacePolicies)
	return stack
}

func programIn(dist, function string) awslambda.Code {
	return awslambda.Code_FromAsset(jsii.String(filepath.Join(dist, function)), nil)
}

func policyOutputs(scope constructs.Construct, prefix string, all map[cdk.Policy]awsiam.ManagedPolicy) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		output(scope, *p.Node().Id()+"Arn", "Managed policy: "+prefix+string(name)+".", p.ManagedPolicyArn())
	}
}

func output(scope constructs.Construct, name, description string, value *string) {
	awscdk.NewCfnOutput(scope, jsii.String(name), &awscdk.CfnOutputProps{
		Description: jsii.String(description),
		Value:       value,
	})
}
