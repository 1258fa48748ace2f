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

// audit runs the rule pack over a stack, as the app does, and returns what it
// finds beyond what the construct accepts.
func audit(dir, dist string, flags, given map[string]any) (found []string) {
	defer func() {
		if problem := recover(); problem != nil {
			found = []string{fmt.Sprint(problem)}
		}
	}()
	// With this flag findings end the synthesis instead of being returned.
	flags = maps.Clone(flags)
	flags["@aws-cdk/core:annotationsInValidationReport"] = false
	app := newApp(dir, flags)
	opts, err := optionsFromContext(given)
	if err != nil {
		return []string{err.Error()}
	}
	stack := newStack(app, opts, dist)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Reports: jsii.Bool(false)}), nil)
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
