package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// accepted are the findings of the AwsSolutions rule pack that we live with.
var accepted = []struct {
	rule, path, appliesTo, reason string
}{
	{"AwsSolutions-S1", "ArchiveBucket/Resource", "",
		"Only the archiver's role writes here; who reads is logged by CloudTrail data events where an account wants them."},
	{"AwsSolutions-S1", "FailedRecordsBucket/Resource", "",
		"Only Lambda writes here; who reads is logged by CloudTrail data events where an account wants them."},
	{"AwsSolutions-IAM5", "AggregatorRole/Resource", "Resource::<FailedRecordsBucket.Arn>/aws/lambda/*",
		"Lambda chooses the keys of given-up batches."},
	{"AwsSolutions-IAM5", "ArchiverRole/Resource", "Resource::<FailedRecordsBucket.Arn>/aws/lambda/*",
		"Lambda chooses the keys of given-up batches."},
	{"AwsSolutions-IAM5", "AggregatorRole/Resource", "Resource::<FailedRecordsBucket.Arn>/malformed/*",
		"The key of a malformed record derives from its place in the stream."},
	{"AwsSolutions-IAM5", "ArchiverRole/Resource", "Resource::<ArchiveBucket.Arn>/audit/*",
		"The key of an archive object derives from the event in it."},
	{"AwsSolutions-IAM5", "ArchiverRole/Resource", "Resource::<ArchiveBucket.Arn>/malformed/*",
		"The key of a malformed record derives from its place in the stream."},
}

// audit runs the rule pack over the default stack and returns what it finds
// beyond the accepted findings.
func audit(dir, dist string, flags map[string]any) (found []string) {
	defer func() {
		if problem := recover(); problem != nil {
			found = []string{fmt.Sprint(problem)}
		}
	}()
	// With this flag findings end the synthesis instead of being returned.
	flags = maps.Clone(flags)
	flags["@aws-cdk/core:annotationsInValidationReport"] = false
	app := newApp(dir, flags)
	stack := newStack(app, defaultOptions(), dist)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Reports: jsii.Bool(false)}), nil)
	for _, a := range accepted {
		suppression := &cdknag.NagPackSuppression{Id: jsii.String(a.rule), Reason: jsii.String(a.reason)}
		if a.appliesTo != "" {
			suppression.AppliesTo = &[]any{a.appliesTo}
		}
		cdknag.NagSuppressions_AddResourceSuppressionsByPath(stack, jsii.String("/zae-limiter/"+a.path),
			&[]*cdknag.NagPackSuppression{suppression}, jsii.Bool(false))
	}
	anyRule := assertions.Match_StringLikeRegexp(jsii.String("AwsSolutions-.*"))
	annotations := assertions.Annotations_FromStack(stack)
	errors := *annotations.FindError(jsii.String("*"), anyRule)
	warnings := *annotations.FindWarning(jsii.String("*"), anyRule)
	for _, m := range slices.Concat(errors, warnings) {
		//lint:ignore SA1019 the type moved to another package, which the assertions do not use yet
		found = append(found, fmt.Sprintf("%s: %v", *m.Id, m.Entry.Data))
	}
	return found
}

func TestRulePackFindsNothingNew(t *testing.T) {
	if len(findings) > 0 {
		t.Errorf("AwsSolutions:\n%s", strings.Join(findings, "\n"))
	}
}
