package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// audit runs the rule packs AwsSolutions, NIST 800-53 r5, HIPAA and PCI DSS 3.2.1 over
// a stack, and returns what they find beyond what the construct accepts.
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
	quiet := &cdknag.NagPackProps{Reports: jsii.Bool(false)}
	for _, pack := range []awscdk.IAspect{
		cdknag.NewAwsSolutionsChecks(quiet), cdknag.NewNIST80053R5Checks(quiet), cdknag.NewHIPAASecurityChecks(quiet),
		cdknag.NewPCIDSS321Checks(quiet),
	} {
		awscdk.Aspects_Of(app).Add(pack, nil)
	}
	anyRule := assertions.Match_StringLikeRegexp(jsii.String("(AwsSolutions|NIST|HIPAA|PCI).*"))
	annotations := assertions.Annotations_FromStack(stack)
	errors := *annotations.FindError(jsii.String("*"), anyRule)
	warnings := *annotations.FindWarning(jsii.String("*"), anyRule)
	for _, m := range slices.Concat(errors, warnings) {
		//lint:ignore SA1019 the type moved to another package, which the assertions do not use yet
		found = append(found, fmt.Sprintf("%s: %v", *m.Id, m.Entry.Data))
	}
	return found
}

// mended are the findings that a stack with default options has, and the option that
// mends each.
var mended = map[string]string{
	"CloudWatchAlarmAction":       "alarmTopicArn",
	"CloudWatchLogGroupEncrypted": "logKeyArn",
	"LambdaConcurrency":           "aggregatorReservedConcurrency",
	"LambdaInsideVPC":             "vpcId",
	"S3BucketVersioningEnabled":   "archiveVersioned",
	"S3DefaultEncryptionKMS":      "keyArn",
}

// TestRulePacksFindWhatOptionsMend: nothing is found in a stack that has chosen
// everything, and in others only what an option mends.
func TestRulePacksFindWhatOptionsMend(t *testing.T) {
	if found := findings["every option"]; len(found) > 0 {
		t.Errorf("with every option %d findings:\n%s", len(found), strings.Join(found, "\n"))
	}
	seen := map[string]bool{}
	for name, found := range findings {
		for _, f := range found {
			rule := ruleOf.FindStringSubmatch(f)
			if rule == nil || mended[rule[1]] == "" {
				t.Errorf("%s: %s", name, f)
				continue
			}
			seen[rule[1]] = true
		}
	}
	for rule, option := range mended {
		if !seen[rule] {
			t.Errorf("%s is found nowhere: %s need not mend it", rule, option)
		}
		if _, set := changedContext["zae-limiter:"+option]; !set {
			t.Errorf("no test sets %s, which mends %s", option, rule)
		}
	}
}

// ruleOf finds the name of a compliance rule without that of its pack.
var ruleOf = regexp.MustCompile(`: (?:NIST\.800\.53\.R5|HIPAA\.Security|PCI\.DSS\.321)-([A-Za-z0-9]+)`)
