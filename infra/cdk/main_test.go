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
)

var update = flag.Bool("update", false, "write template.golden.json instead of comparing with it")

const goldenPath = "template.golden.json"

// The jsii kernel behind the constructs is one process for all tests, is slow
// to start and takes one call at a time. So every stack is synthesized once,
// in TestMain, no test is parallel, and nothing closes the kernel: its Close
// is a data race under -race.
var (
	golden   template // default options
	allIndex template // GSI2 projects ALL, an alarm topic, other numbers
	findings []string // what the rule pack says about the default stack
)

var allIndexContext = map[string]any{
	"zae-limiter:stackName":        "prod-limits",
	"zae-limiter:gsi2Projection":   "ALL",
	"zae-limiter:snapshotWindows":  "hourly,monthly",
	"zae-limiter:snapshotTtlDays":  "400",
	"zae-limiter:maxShards":        float64(8),
	"zae-limiter:writeConcurrency": "4",
	"zae-limiter:logRetentionDays": "365",
	"zae-limiter:alarmTopicArn":    "arn:aws:sns:eu-west-1:123456789012:on-call",
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
	if golden, err = synth(dir, dist, flags, nil); err != nil {
		return fail(err)
	}
	if allIndex, err = synth(dir, dist, flags, allIndexContext); err != nil {
		return fail(err)
	}
	findings = audit(dir, dist, flags)
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// writeStubs writes bootstrap files with fixed bytes, so that the names of the
// assets in a template do not depend on compilers.
func writeStubs(dist string) error {
	for _, name := range []string{"aggregator", "archiver"} {
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
	b, err := os.ReadFile("../../cdk.json")
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

func TestTemplateIsTheCommittedGolden(t *testing.T) {
	if *update {
		if err := os.WriteFile(goldenPath, golden.text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden.text, want) {
		t.Errorf("%s differs from a fresh synth at line %d; look at the difference, then run make golden", goldenPath, firstDifference(golden.text, want))
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
