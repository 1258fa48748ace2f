package main

import (
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestDataOutlivesTheStack names every resource that holds data, by the
// logical id it must keep forever. A first deployment that fails leaves nothing.
func TestDataOutlivesTheStack(t *testing.T) {
	for _, kind := range []string{"AWS::DynamoDB::Table", "AWS::S3::Bucket"} {
		for id := range golden.ofType(kind) {
			if !slices.Contains(holding.IDs(), id) {
				t.Errorf("%s is not named as what holds data", id)
			}
		}
	}
	for _, id := range holding.IDs() {
		r, ok := golden.Resources[id]
		if !ok || r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("%s: there %v, deletion %q, replacement %q, want RetainExceptOnCreate and Retain", id, ok,
				r.DeletionPolicy, r.UpdateReplacePolicy)
		}
	}
}

// TestNothingWaitsForSetupToDelete: it would do nothing then, and a function that cannot answer, in a
// VPC without a way to S3 for one, would keep the stack from being rolled back or destroyed.
func TestNothingWaitsForSetupToDelete(t *testing.T) {
	for _, in := range []template{golden, changed, bare, provisioned} {
		r := in.one(t, "Custom::ZaeLimiterSetup", "Namespaces")
		if r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" {
			t.Errorf("deletion %q, replacement %q", r.DeletionPolicy, r.UpdateReplacePolicy)
		}
	}
}

// TestNoDeploymentIsSetUpLater than CloudFormation waits for: the one that it then rolls back to would be
// undone. An event that waits for concurrency, or is repeated after an answer was lost, is begun within its
// age, and ends within the timeout.
func TestNoDeploymentIsSetUpLater(t *testing.T) {
	asked := golden.one(t, "Custom::ZaeLimiterSetup", "Namespaces").Properties
	waits, err := strconv.Atoi(asked["ServiceTimeout"].(string))
	check.Must(t, err)
	runs := golden.one(t, "AWS::Lambda::Function", "Setup").Properties["Timeout"].(float64)
	config := golden.one(t, "AWS::Lambda::EventInvokeConfig", "Setup").Properties
	begins, ok := config["MaximumEventAgeInSeconds"].(float64)
	if !ok || begins+runs > float64(waits) {
		t.Errorf("it begins within %v s and runs for %v s, and CloudFormation waits for %v s", begins, runs, waits)
	}
}

func TestBucketsArePrivate(t *testing.T) {
	buckets := golden.ofType("AWS::S3::Bucket")
	check.Equal(t, len(buckets), 2, "buckets")
	for id, b := range buckets {
		for _, block := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
			check.Equal(t, dig(b.Properties, "PublicAccessBlockConfiguration", block), true,
				"%s: %s is not set", id, block)
		}
		if b.Properties["BucketEncryption"] == nil {
			t.Errorf("%s is not encrypted", id)
		}
		policy := text(t, golden.one(t, "AWS::S3::BucketPolicy", id).Properties["PolicyDocument"])
		if !strings.Contains(policy, `"Condition":{"Bool":{"aws:SecureTransport":"false"}},"Effect":"Deny"`) {
			t.Errorf("%s accepts plain HTTP: %s", id, policy)
		}
	}
	for id, b := range buckets {
		rules := text(t, dig(b.Properties, "LifecycleConfiguration", "Rules"))
		if strings.Contains(rules, "Expiration") || strings.Contains(rules, "Transition") {
			t.Errorf("%s: objects expire or move to another class: %s", id, rules)
		}
	}
}

func TestAlarms(t *testing.T) {
	want := []string{"AggregatorDeadMapping", "DeadLetters"}
	for _, where := range []string{"Table", "GSI1", "GSI2", "GSI3", "GSI4"} {
		want = append(want, where+"ReadThrottles", where+"WriteThrottles")
	}
	for _, fn := range []string{"Aggregator", "Archiver"} {
		for _, what := range []string{"IteratorAge", "Errors", "Throttles", "Duration", "FailedRecords", "DroppedRecords",
			"DestinationFailures", "Malformed", "WritesFailed"} {
			want = append(want, fn+what)
		}
	}
	waking := []string{"TableWriteThrottles", "TableReadThrottles", "GSI1WriteThrottles", "GSI2WriteThrottles",
		"GSI3WriteThrottles", "GSI4WriteThrottles", "AggregatorDroppedRecords", "AggregatorDestinationFailures",
		"ArchiverDroppedRecords", "ArchiverDestinationFailures"}
	for _, c := range []struct {
		in           template
		calm, urgent string
	}{
		{golden, `null`, `null`},
		{changed, `["arn:aws:sns:eu-west-1:123456789012:on-call"]`, `["arn:aws:sns:eu-west-1:123456789012:wake-up"]`},
	} {
		var got []string
		for id, a := range c.in.ofType("AWS::CloudWatch::Alarm") {
			name, _, _ := strings.Cut(id, "Alarm")
			got = append(got, name)
			want := c.calm
			if slices.Contains(waking, name) {
				want = c.urgent
			}
			for _, when := range []string{"AlarmActions", "OKActions"} {
				check.Equal(t, text(t, a.Properties[when]), want, "%s of %s", when, id)
			}
		}
		sort.Strings(got)
		sort.Strings(want)
		check.Slices(t, got, want, "alarms")
	}
}

func attribute(id, name string) any {
	return map[string]any{"Fn::GetAtt": []any{id, name}}
}

// text renders a part of a template as compact JSON with keys in order.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	check.Must(t, err)
	return string(b)
}
