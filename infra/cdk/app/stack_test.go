package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

func TestTable(t *testing.T) {
	props := golden.one(t, "AWS::DynamoDB::Table", "Table").Properties
	for _, c := range []struct {
		what string
		got  any
		want string
	}{
		{"name", props["TableName"], `"zae-limiter"`},
		{"billing", props["BillingMode"], `"PAY_PER_REQUEST"`},
		{"keys", props["KeySchema"], `[{"AttributeName":"PK","KeyType":"HASH"},{"AttributeName":"SK","KeyType":"RANGE"}]`},
		{"stream", props["StreamSpecification"], `{"StreamViewType":"NEW_AND_OLD_IMAGES"}`},
		{"time to live", props["TimeToLiveSpecification"], `{"AttributeName":"` + layout.AttrTTL + `","Enabled":true}`},
		{"point-in-time recovery", props["PointInTimeRecoverySpecification"], `{"PointInTimeRecoveryEnabled":true}`},
		{"local indexes", props["LocalSecondaryIndexes"], `null`},
	} {
		if got := text(t, c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	for _, a := range props["AttributeDefinitions"].([]any) {
		if dig(a, "AttributeType") != "S" {
			t.Errorf("key attribute %v is not a string", dig(a, "AttributeName"))
		}
	}
}

func TestIndexes(t *testing.T) {
	for _, c := range []struct {
		name string
		in   template
		gsi2 string
	}{
		{"default", golden, "KEYS_ONLY"},
		{"gsi2Projection=ALL", changed, "ALL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []string{
				index(layout.IndexGSI1, item.AttrGSI1PK, item.AttrGSI1SK, "ALL"),
				index(layout.IndexGSI2, item.AttrGSI2PK, item.AttrGSI2SK, c.gsi2),
				index(layout.IndexGSI3, item.AttrGSI3PK, item.AttrGSI3SK, "KEYS_ONLY"),
				index(layout.IndexGSI4, item.AttrGSI4PK, item.AttrGSI4SK, "KEYS_ONLY"),
			}
			var got []string
			for _, i := range c.in.one(t, "AWS::DynamoDB::Table", "Table").Properties["GlobalSecondaryIndexes"].([]any) {
				got = append(got, text(t, i))
			}
			if !slices.Equal(got, want) {
				t.Errorf("indexes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func index(name, pk, sk, projection string) string {
	return `{"IndexName":"` + name + `","KeySchema":[{"AttributeName":"` + pk + `","KeyType":"HASH"},{"AttributeName":"` +
		sk +
		`","KeyType":"RANGE"}],"Projection":{"ProjectionType":"` + projection + `"}}`
}

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
	if err != nil {
		t.Fatal(err)
	}
	runs := golden.one(t, "AWS::Lambda::Function", "Setup").Properties["Timeout"].(float64)
	config := golden.one(t, "AWS::Lambda::EventInvokeConfig", "Setup").Properties
	begins, ok := config["MaximumEventAgeInSeconds"].(float64)
	if !ok || begins+runs > float64(waits) {
		t.Errorf("it begins within %v s and runs for %v s, and CloudFormation waits for %v s", begins, runs, waits)
	}
}

func TestBucketsArePrivate(t *testing.T) {
	buckets := golden.ofType("AWS::S3::Bucket")
	if len(buckets) != 2 {
		t.Errorf("%d buckets, want 2", len(buckets))
	}
	for id, b := range buckets {
		for _, block := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
			if dig(b.Properties, "PublicAccessBlockConfiguration", block) != true {
				t.Errorf("%s: %s is not set", id, block)
			}
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

func TestFunctions(t *testing.T) {
	if n := len(golden.ofType("AWS::Lambda::Function")); n != 3 {
		t.Errorf("%d functions, want 3: nothing else may be hidden in the stack", n)
	}
	for _, c := range []struct {
		name string
		in   template
		env  map[string]any
	}{
		{"Aggregator", golden, map[string]any{
			function.EnvTableName:            map[string]any{"Ref": "Table"},
			function.EnvSnapshotWindows:      "hourly,daily",
			function.EnvSnapshotTTLDays:      "90",
			function.EnvMaxShards:            "32",
			function.EnvMergeAfterSeconds:    "600",
			function.EnvWriteConcurrency:     "16",
			function.EnvThresholds:           "50,80,100",
			function.EnvDeadLetterBucketName: map[string]any{"Ref": "FailedRecordsBucket"},
			"GOMEMLIMIT":                     "460MiB",
		}},
		{"Aggregator", changed, map[string]any{
			function.EnvTableName:            map[string]any{"Ref": "Table"},
			function.EnvSnapshotWindows:      "hourly,monthly",
			function.EnvSnapshotTTLDays:      "400",
			function.EnvMaxShards:            "8",
			function.EnvMergeAfterSeconds:    "1200",
			function.EnvWriteConcurrency:     "4",
			function.EnvMaxWriteUnits:        "500",
			function.EnvThresholds:           "75,budget=90,budget=100",
			function.EnvAlertTargetARN:       changedContext["zae-limiter:alertTargetArn"],
			function.EnvDeadLetterBucketName: map[string]any{"Ref": "FailedRecordsBucket"},
			"GOMEMLIMIT":                     "921MiB",
		}},
		{"Archiver", golden, map[string]any{
			function.EnvArchiveBucketName: map[string]any{"Ref": "ArchiveBucket"},
			"GOMEMLIMIT":                  "230MiB",
		}},
		{"Setup", golden, map[string]any{
			function.EnvTableName: map[string]any{"Ref": "Table"},
			"GOMEMLIMIT":          "115MiB",
		}},
	} {
		props := c.in.one(t, "AWS::Lambda::Function", c.name).Properties
		if got := dig(props, "Environment", "Variables"); !reflect.DeepEqual(got, any(c.env)) {
			t.Errorf("%s: environment %s, want %s", c.name, text(t, got), text(t, c.env))
		}
		got := text(t, []any{props["Runtime"], props["Architectures"], props["Handler"]})
		if got != `["provided.al2023",["arm64"],"bootstrap"]` {
			t.Errorf("%s: %s", c.name, got)
		}
		if dig(props, "LoggingConfig", "LogFormat") != "JSON" {
			t.Errorf("%s does not log JSON: %v", c.name, props["LoggingConfig"])
		}
		if dig(props, "LoggingConfig", "SystemLogLevel") != "WARN" {
			t.Errorf("%s pays for lines of Lambda's own: %v", c.name, props["LoggingConfig"])
		}
		if props["FunctionName"] != nil {
			t.Errorf("%s has the fixed name %v; Python clients overwrite <stack>-aggregator", c.name, props["FunctionName"])
		}
	}
}

func TestLogsAreKeptAsLongAsAsked(t *testing.T) {
	for _, c := range []struct {
		in   template
		days float64
	}{{golden, 30}, {changed, 400}} {
		groups := c.in.ofType("AWS::Logs::LogGroup")
		if len(groups) != 3 {
			t.Errorf("%d log groups, want 3", len(groups))
		}
		for id, g := range groups {
			if g.Properties["RetentionInDays"] != c.days {
				t.Errorf("%s: retention %v days, want %v", id, g.Properties["RetentionInDays"], c.days)
			}
		}
	}
}

func TestMappings(t *testing.T) {
	for _, c := range []struct {
		name, filter string
		batch, fold  float64
	}{
		{"Aggregator", `{"dynamodb":{"Keys":{"SK":{"S":["#STATE"]}}}}`, 1000, 60},
		{"Archiver", `{"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#AUDIT#"}]}}},"eventName":["REMOVE"],` +
			`"userIdentity":{"principalId":["dynamodb.amazonaws.com"],"type":["Service"]}}`, 100, 0},
	} {
		got := golden.one(t, "AWS::Lambda::EventSourceMapping", c.name).Properties
		function := ""
		for id := range golden.ofType("AWS::Lambda::Function") {
			if strings.HasPrefix(id, c.name) {
				function = id
			}
		}
		want := map[string]any{
			"BatchSize":                  c.batch,
			"BisectBatchOnFunctionError": true,
			"DestinationConfig": map[string]any{"OnFailure": map[string]any{"Destination": attribute(
				"FailedRecordsBucket", "Arn")}},
			"Enabled":                        true,
			"EventSourceArn":                 attribute("Table", "StreamArn"),
			"FilterCriteria":                 map[string]any{"Filters": []any{map[string]any{"Pattern": c.filter}}},
			"FunctionName":                   attribute(function, "Arn"),
			"FunctionResponseTypes":          []any{"ReportBatchItemFailures"},
			"MaximumBatchingWindowInSeconds": 1.0,
			"MaximumRecordAgeInSeconds":      21600.0,
			"MaximumRetryAttempts":           10000.0,
			"MetricsConfig":                  map[string]any{"Metrics": []any{"EventCount"}},
			"ParallelizationFactor":          1.0,
			"StartingPosition":               "TRIM_HORIZON",
			"TumblingWindowInSeconds":        c.fold,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text(t, got), text(t, want))
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
				if actions := text(t, a.Properties[when]); actions != want {
					t.Errorf("%s of %s are %s, want %s", when, id, actions, want)
				}
			}
		}
		sort.Strings(got)
		sort.Strings(want)
		if !slices.Equal(got, want) {
			t.Errorf("alarms %v, want %v", got, want)
		}
	}
}

func TestOutputs(t *testing.T) {
	for _, name := range []string{"TableName", "StreamArn", "AggregatorFunctionName", "ArchiverFunctionName",
		"ArchiveBucketName", "FailedRecordsBucketName"} {
		if golden.Outputs[name] == nil {
			t.Errorf("no output %s", name)
		}
	}
}

func attribute(id, name string) any {
	return map[string]any{"Fn::GetAtt": []any{id, name}}
}

// text renders a part of a template as compact JSON with keys in order.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
