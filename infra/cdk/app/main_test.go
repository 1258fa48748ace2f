package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var update = flag.Bool("update", false, "write template.golden.json instead of comparing with it")

const (
	goldenPath  = "template.golden.json"
	changedPath = "testdata/every-option.golden.json"
	barePath    = "testdata/bare.golden.json"
	paidPath    = "testdata/provisioned.golden.json"
)

// The jsii kernel behind the constructs is one process for all tests, is slow
// to start and takes one call at a time. So every stack is synthesized once,
// in TestMain, no test is parallel, and nothing closes the kernel: its Close
// is a data race under -race.
var (
	golden   template            // default options
	changed  template            // every option that changes the template, changed
	bare     template            // everything off that can be off, on a table made elsewhere
	findings map[string][]string // what the rule packs say about them all

	provisioned template // capacity that is provisioned and scaled
)

const account = "123456789012"

var changedContext = map[string]any{
	"zae-limiter:stackName":                     "prod-limits",
	"zae-limiter:tableName":                     "prod-table",
	"zae-limiter:terminationProtection":         true,
	"zae-limiter:namespaces":                    []any{"default", "team-a"},
	"zae-limiter:auditRetentionDays":            "365",
	"zae-limiter:gsi2Projection":                "ALL",
	"zae-limiter:snapshotWindows":               "hourly,monthly",
	"zae-limiter:snapshotTtlDays":               "400",
	"zae-limiter:maxShards":                     float64(8),
	"zae-limiter:mergeAfterSeconds":             "1200",
	"zae-limiter:writeConcurrency":              "4",
	"zae-limiter:aggregatorMemoryMiB":           "1024",
	"zae-limiter:aggregatorTimeoutSeconds":      "120",
	"zae-limiter:aggregatorBatchSize":           "500",
	"zae-limiter:aggregatorWindowSeconds":       "5",
	"zae-limiter:aggregatorParallelization":     "1",
	"zae-limiter:aggregatorFoldSeconds":         "300",
	"zae-limiter:aggregatorFoldOff":             "false",
	"zae-limiter:aggregatorReservedConcurrency": "20",
	"zae-limiter:aggregatorMaxWriteUnits":       "500",
	"zae-limiter:archiverMemoryMiB":             "128",
	"zae-limiter:archiverTimeoutSeconds":        "30",
	"zae-limiter:archiverBatchSize":             "50",
	"zae-limiter:archiverWindowSeconds":         "10",
	"zae-limiter:archiverParallelization":       "3",
	"zae-limiter:archiverReservedConcurrency":   "5",
	"zae-limiter:setupRoleArn":                  "arn:aws:iam::" + account + ":role/limits-setup",
	"zae-limiter:logLevel":                      "DEBUG",
	"zae-limiter:logRetentionDays":              "400",
	"zae-limiter:tracing":                       "true",
	"zae-limiter:alarmTopicArn":                 "arn:aws:sns:eu-west-1:" + account + ":on-call",
	"zae-limiter:alertTargetArn":                "arn:aws:events:eu-west-1:" + account + ":event-bus/alerts",
	"zae-limiter:thresholds":                    "75,budget=90,budget=100",
	"zae-limiter:alarmIteratorAgeSeconds":       "60",
	"zae-limiter:alarmDurationPercent":          "50",
	"zae-limiter:alarmErrors":                   "10",
	"zae-limiter:alarmThrottles":                "7",
	"zae-limiter:pitrDays":                      "7",
	"zae-limiter:deletionProtection":            "true",
	"zae-limiter:warmReadUnits":                 "20000",
	"zae-limiter:warmWriteUnits":                "10000",
	"zae-limiter:maxReadUnits":                  "40000",
	"zae-limiter:maxWriteUnits":                 "30000",
	"zae-limiter:permissionBoundary":            "developers",
	"zae-limiter:roleNameFormat":                "pb-{}",
	"zae-limiter:policyNameFormat":              "pb-{}-policy",
	"zae-limiter:archiveTransitionDays":         "90",
	"zae-limiter:archiveExpiryDays":             "3650",
	"zae-limiter:keyArn": "arn:aws:kms:eu-west-1:" + account +
		":key/11111111-2222-3333-4444-555555555555",
	"zae-limiter:logKeyArn": "arn:aws:kms:eu-west-1:" + account +
		":key/22222222-2222-3333-4444-555555555555",
	"zae-limiter:environmentKeyArn": "arn:aws:kms:eu-west-1:" + account +
		":key/33333333-2222-3333-4444-555555555555",
	"zae-limiter:urgentTopicArn":           "arn:aws:sns:eu-west-1:" + account + ":wake-up",
	"zae-limiter:vpcId":                    "vpc-0a1b2c3d4e5f60718",
	"zae-limiter:vpcSubnetIds":             "subnet-0a1b2c3d4e5f60718,subnet-0a1b2c3d4e5f60719",
	"zae-limiter:securityGroupIds":         "sg-0a1b2c3d4e5f60718",
	"zae-limiter:setupReservedConcurrency": "1",
	"zae-limiter:archiveVersioned":         "true",
	"zae-limiter:removalPolicy":            "destroy",
	"zae-limiter:mayLose":                  "Table",
	"zae-limiter:tags":                     "team=platform,cost-center=42",
}

var bareContext = map[string]any{
	"zae-limiter:existingStreamArn": "arn:aws:dynamodb:eu-west-1:" + account +
		":table/zae-limiter/stream/2026-01-01T00:00:00.000",
	"zae-limiter:aggregatorRoleArn": "arn:aws:iam::" + account + ":role/limits-aggregator",
	"zae-limiter:archiverOff":       true,
	"zae-limiter:aggregatorOff":     "false",
	"zae-limiter:aggregatorPaused":  "true",
	"zae-limiter:archiverRoleArn":   "arn:aws:iam::" + account + ":role/limits-archiver",
	"zae-limiter:alarmsOff":         "true",
	"zae-limiter:dashboardOff":      "true",
	"zae-limiter:policiesOff":       "true",
	"zae-limiter:manifests":         "testdata/limits.yaml",
}

var provisionedContext = map[string]any{
	"zae-limiter:alertTargetArn":           "arn:aws:sns:eu-west-1:" + account + ":alerts",
	"zae-limiter:billingMode":              "provisioned",
	"zae-limiter:maxReadUnits":             "2000",
	"zae-limiter:maxWriteUnits":            "1000",
	"zae-limiter:minReadUnits":             "5",
	"zae-limiter:minWriteUnits":            "5",
	"zae-limiter:targetUtilizationPercent": "60",
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cdk-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	dist := filepath.Join(dir, "dist")
	if err := writeStubs(dist); err != nil {
		return fail(err)
	}
	flags, err := cdkJSONContext()
	if err != nil {
		return fail(err)
	}
	findings = map[string][]string{}
	for name, stack := range map[string]struct {
		to    *template
		given map[string]any
	}{"default": {&golden, nil}, "every option": {&changed, changedContext}, "bare": {&bare, bareContext},
		"provisioned": {&provisioned, provisionedContext}} {
		if *stack.to, err = synth(dir, dist, flags, stack.given); err != nil {
			return fail(err)
		}
		findings[name] = audit(dir, dist, flags, stack.given)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// writeStubs writes bootstrap files with fixed bytes, so that the names of the
// assets in a template do not depend on compilers.
func writeStubs(dist string) error {
	for _, name := range []string{"aggregator", "archiver", "setup"} {
		if err := os.MkdirAll(filepath.Join(dist, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dist, name, "bootstrap"), []byte("stub of "+name+"\n"), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// cdkJSONContext returns the feature flags that the command line tool passes
// to the app; go test does not read cdk.json by itself.
func cdkJSONContext() (map[string]any, error) {
	b, err := os.ReadFile("../../../cdk.json")
	if err != nil {
		return nil, err
	}
	var file struct{ Context map[string]any }
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("cdk.json: %w", err)
	}
	return file.Context, nil
}

// synth builds the stack as main does, with cdk.json's flags and some more
// context, and returns its template.
func synth(dir, dist string, flags, context map[string]any) (template, error) {
	opts, err := optionsFromContext(context)
	if err != nil {
		return template{}, err
	}
	stack := newStack(newApp(dir, flags), opts, dist)
	return decodeTemplate(assertions.Template_FromStack(stack, nil).ToJSON())
}

func newApp(dir string, flags map[string]any) awscdk.App {
	out, err := os.MkdirTemp(dir, "out-")
	if err != nil {
		panic(err)
	}
	return awscdk.NewApp(&awscdk.AppProps{
		AnalyticsReporting: jsii.Bool(false),
		Context:            &flags,
		Outdir:             jsii.String(out),
	})
}

// TestTemplatesAreTheCommittedGoldens: with default options, with every option
// changed, with everything off, and with provisioned capacity. So each option is seen to do what it should,
// where it should.
func TestTemplatesAreTheCommittedGoldens(t *testing.T) {
	for path, fresh := range map[string][]byte{goldenPath: golden.text, changedPath: changed.text, barePath: bare.text,
		paidPath: provisioned.text} {
		if *update {
			check.Must(t, os.WriteFile(path, fresh, 0o644))
			continue
		}
		want, err := os.ReadFile(path)
		check.Must(t, err)
		if !bytes.Equal(fresh, want) {
			t.Errorf("%s differs from a fresh synth at line %d; look at the difference, then run make golden", path,
				firstDifference(fresh, want))
		}
	}
}

func firstDifference(a, b []byte) int {
	left, right := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(left), len(right)) {
		if !bytes.Equal(left[i], right[i]) {
			return i + 1
		}
	}
	return min(len(left), len(right)) + 1
}
