// The CDK app that provisions the table, the two functions fed by its stream,
// and everything around them: one stack, one file per concern. Names of keys,
// indexes and environment variables come from the root module, so a template
// and the code that runs against it cannot disagree.
//
// The CDK command line tool starts it (cdk.json at the repository root); it
// makes no network look-up and needs no credentials to synthesize.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
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

// root is the repository root, seen from this module, which is where cdk.json
// starts the app. The command line tool runs in the root, and every file name
// that it passes in the environment is relative to it; so the app goes there
// before the constructs start.
const root = "../.."

// run synthesizes the stack to out, with the functions found in dist and the
// options found in the app's context. An empty out is CDK's default. It
// writes no template when it returns an error.
func run(dist, out string) error {
	props := &awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)}
	if out != "" {
		props.Outdir = jsii.String(out)
	}
	app := awscdk.NewApp(props)
	context, _ := app.Node().GetAllContext(nil).(map[string]any)
	opts, err := optionsFromContext(context)
	if err := errors.Join(err, checkBuilt(dist, "aggregator", "archiver")); err != nil {
		return err
	}
	newStack(app, opts, dist)
	app.Synth(nil)
	return nil
}

// newStack builds the one stack of the app. dist holds aggregator/bootstrap
// and archiver/bootstrap.
func newStack(scope constructs.Construct, opts options, dist string) awscdk.Stack {
	stack := awscdk.NewStack(scope, jsii.String(opts.StackName), &awscdk.StackProps{
		Description: jsii.String("Rate limiter: token buckets in DynamoDB, stream aggregator, audit archiver."),
	})
	table := newTable(stack, opts)
	archive := newArchiveBucket(stack)
	failed := newFailedRecordsBucket(stack)

	aggregator := newAggregator(stack, opts, table, failed, filepath.Join(dist, "aggregator"))
	archiver := newArchiver(stack, opts, table, archive, failed, filepath.Join(dist, "archiver"))
	aggregatorMapping := newAggregatorMapping(stack, table, aggregator, failed)
	archiverMapping := newArchiverMapping(stack, table, archiver, failed)

	alarms := newAlarms(stack, opts)
	alarms.watchFunction("Aggregator", aggregator, aggregatorMapping)
	alarms.watchFunction("Archiver", archiver, archiverMapping)
	alarms.watchTable(table)

	output(stack, "TableName", "Table of buckets, limits and usage; clients open it by this name.", table.TableName())
	output(stack, "StreamArn", "Stream of the table, read by both functions.", table.TableStreamArn())
	output(stack, "AggregatorFunctionName", "Function that counts usage, refills and splits buckets.", aggregator.FunctionName())
	output(stack, "ArchiverFunctionName", "Function that archives expired audit events.", archiver.FunctionName())
	output(stack, "ArchiveBucketName", "Bucket of archived audit events.", archive.BucketName())
	output(stack, "FailedRecordsBucketName", "Bucket of batches that were given up, with their payload.", failed.BucketName())
	return stack
}

func output(scope constructs.Construct, name, description string, value *string) {
	awscdk.NewCfnOutput(scope, jsii.String(name), &awscdk.CfnOutputProps{
		Description: jsii.String(description),
		Value:       value,
	})
}
