//go:build deploy

package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/release"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// plain returns the template of a release, checked by cfn-lint and adapted to the emulator.
func (e *emulator) plain(t *testing.T, version string) string {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join(e.root, "infra", "cdk", "app", "template.golden.json"))
	check.Must(t, err)
	text, err := release.Template(golden, version)
	check.Must(t, err)
	file := filepath.Join(e.dir, "plain.template.json")
	check.Must(t, os.WriteFile(file, text, 0o600))
	lint := exec.Command(filepath.Join(e.root, ".cache", "deploy", "bin", "cfn-lint"), "--ignore-checks", "W3005", "--",
		file)
	if said, err := lint.CombinedOutput(); err != nil {
		t.Errorf("cfn-lint: %v\n%s", err, said)
	}
	var doc map[string]any
	check.Must(t, json.Unmarshal(text, &doc))
	all := resources{}
	for id, r := range doc["Resources"].(map[string]any) {
		all[id] = r.(map[string]any)
		if r := all[id]; r["Type"] == "AWS::Lambda::EventSourceMapping" { // the emulator has no tumbling windows
			r["Properties"].(map[string]any)["TumblingWindowInSeconds"] = 0
		}
	}
	plainAlarms(all)
	if text, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// archives uploads this machine's builds of the functions in the form of a release.
func (e *emulator) archives(t *testing.T, bucket, prefix, version string) {
	t.Helper()
	check.Must(t, check.Err(e.s3().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)})))
	for _, function := range release.Functions {
		program, err := os.ReadFile(filepath.Join(e.root, "dist", "local", function, "bootstrap"))
		check.Must(t, err)
		packed, err := release.Zip(program)
		check.Must(t, err)
		check.Must(t, check.Err(e.s3().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(bucket),
			Key: aws.String(prefix + release.Archive(function, version)), Body: bytes.NewReader(packed)})))
	}
}

// TestTemplateOfARelease deploys the whole stack without the CDK, by the steps of docs/deploying.md for
// stacks in TypeScript and Python, and for consoles.
func TestTemplateOfARelease(t *testing.T) {
	const version = "v0.0.1"
	e := startEmulator(t)
	e.archives(t, "code", "limiter/", version)
	w := &world{emulator: e, granted: map[string]int64{}, stack: "plain", table: "plain-limits"}
	parameters := map[string]string{"TableName": w.table, "NamespaceNames": "default,team-a", "CodeBucket": "code",
		"CodePrefix": "limiter/", "AlarmTopicArn": "arn:aws:sns:" + region + ":" + account + ":on-call"}
	var given []types.Parameter
	for name, value := range parameters {
		given = append(given, types.Parameter{ParameterKey: aws.String(name), ParameterValue: aws.String(value)})
	}
	const template = "limiter/plain.template.json" // larger than CloudFormation accepts without a bucket
	if _, err := e.s3().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("code"), Key: aws.String(template),
		Body: strings.NewReader(e.plain(t, version))}); err != nil {
		t.Fatal(err)
	}
	check.Must(t, check.Err(e.cloudformation().CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: aws.String(w.stack), TemplateURL: aws.String(e.url + "/code/" + template), Parameters: given,
		Capabilities: []types.Capability{types.CapabilityCapabilityIam},
	})))
	w.settled(t, types.StackStatusCreateComplete)
	w.read(t)
	if got := w.outputs["NamespaceIds"]; !strings.Contains(got, "default=") || !strings.Contains(got, ",team-a=") {
		t.Errorf("namespaces %q", got)
	}
	err := limitertable.Check(t.Context(), e.dynamodb(root), w.table)
	if diff, ok := errors.AsType[*limitertable.DiffError](err); !ok || len(diff.Diffs) != 1 ||
		!strings.HasPrefix(diff.Diffs[0], "time to live: ") {
		t.Errorf("want the table but for the time to live, which the emulator does not set: %v", err)
	}
	app := w.user(t, "application", w.outputs["AcquirePolicyArn"])
	check.Must(t, w.acquire(t.Context(), app, "acme", 12))
	w.counted(t, "acme")
	check.NoError(t, w.budget(t, app, w.table, 10))
	check.Is(t, w.budget(t, app, w.table, 1), limiter.ErrLimited, "an eleventh of ten is not denied")

	// Deletion protection of an existing table, in place.
	made := *w.describe(t, w.table).CreationDateTime
	given = append(given, types.Parameter{ParameterKey: aws.String("DeletionProtection"),
		ParameterValue: aws.String("true")})
	check.Must(t, check.Err(e.cloudformation().UpdateStack(t.Context(), &cloudformation.UpdateStackInput{
		StackName: aws.String(w.stack), UsePreviousTemplate: aws.Bool(true), Parameters: given,
		Capabilities: []types.Capability{types.CapabilityCapabilityIam},
	})))
	w.settled(t, types.StackStatusUpdateComplete)
	if is := w.describe(t, w.table); !is.CreationDateTime.Equal(made) || !aws.ToBool(is.DeletionProtectionEnabled) {
		t.Errorf("made at %v, now %v, protected %v", made, is.CreationDateTime, aws.ToBool(is.DeletionProtectionEnabled))
	}
	check.Must(t, check.Err(e.cloudformation().DeleteStack(t.Context(),
		&cloudformation.DeleteStackInput{StackName: aws.String(w.stack)})))
	eventually(t, "the stack is gone", patience, func() error {
		out, err := e.cloudformation().DescribeStacks(t.Context(),
			&cloudformation.DescribeStacksInput{StackName: aws.String(w.stack)})
		if err == nil && !slices.ContainsFunc(out.Stacks, func(s types.Stack) bool {
			return s.StackStatus == types.StackStatusDeleteComplete
		}) {
			return fmt.Errorf("it is %+v", out.Stacks)
		}
		return nil
	})
	if is := w.describe(t, w.table); !is.CreationDateTime.Equal(made) {
		t.Error("the table went with its stack")
	}
}

// settled waits until the stack is in a state.
func (w *world) settled(t *testing.T, want types.StackStatus) {
	t.Helper()
	eventually(t, string(want), patience, func() error {
		out, err := w.cloudformation().DescribeStacks(t.Context(),
			&cloudformation.DescribeStacksInput{StackName: aws.String(w.stack)})
		if err == nil && out.Stacks[0].StackStatus != want {
			err = fmt.Errorf("%s: %s", out.Stacks[0].StackStatus, aws.ToString(out.Stacks[0].StackStatusReason))
		}
		return err
	})
}
