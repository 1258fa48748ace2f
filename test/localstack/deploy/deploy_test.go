//go:build deploy

package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/limiter"
)

const (
	stack     = "zae-limiter-go"
	tableName = "zae-limiter"
)

// TestDeployment runs the life of a stack in order. Every step needs the previous one.
func TestDeployment(t *testing.T) {
	e := startEmulator(t)
	e.mustCDK(t, "bootstrap", "aws://"+account+"/"+region, "--app", "")

	w := &world{emulator: e, granted: map[string]int64{}, stack: stack, table: tableName}
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"a first deployment that fails leaves nothing", w.firstFails},
		{"deployed from nothing", w.deployed},
		{"a client with the acquire policy works and its usage is exact", w.clientRuns},
		{"deployed again without change", w.unchanged},
		{"an update that would lose the table is refused", w.updateRefused},
		{"changed options are an update without replacement", w.changed},
		{"thresholds arrive at a webhook, by a bus and by a topic", w.alerted},
		{"application policies are sufficient", w.applicationPolicies},
		{"roles of the functions are sufficient and minimal", w.functionRoles},
		{"batches that were given up are replayed", w.replayed},
		{"the tool shows the functions", w.shown},
		{"destroyed, and the data is kept", w.destroyed},
		{"imported, and it goes on", w.imported},
		{"restored into a new table, and the stack follows", w.restored},
		{"a table of Python's is adopted, and both clients go on", w.adopted},
	} {
		began := time.Now()
		if !t.Run(step.name, step.do) {
			t.FailNow()
		}
		t.Logf("deploy: %s: %.1f s", step.name, time.Since(began).Seconds())
	}
}

// world is the state that steps share.
type world struct {
	*emulator
	stack   string
	table   string // its name
	outputs map[string]string
	first   string           // folder of the first synthesis
	app     identity         // an application with the acquire policy
	granted map[string]int64 // requests by entity
	made    time.Time        // creation time of the table
}

func (w *world) read(t *testing.T) {
	t.Helper()
	out, err := w.cloudformation().DescribeStacks(t.Context(),
		&cloudformation.DescribeStacksInput{StackName: aws.String(w.stack)})
	check.Must(t, err)
	w.outputs = map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		w.outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
}

func (w *world) describe(t *testing.T, name string) *types.TableDescription {
	t.Helper()
	out, err := w.dynamodb(root).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	check.Must(t, err)
	return out.Table
}

func (w *world) buckets(t *testing.T) (names []string) {
	t.Helper()
	out, err := w.s3().ListBuckets(t.Context(), &s3.ListBucketsInput{})
	check.Must(t, err)
	for _, b := range out.Buckets {
		if name := aws.ToString(b.Name); !strings.HasPrefix(name, "cdk-") {
			names = append(names, name)
		}
	}
	return names
}

// firstFails deploys a stack whose custom resource cannot succeed, after the table and the buckets
// are created.
func (w *world) firstFails(t *testing.T) {
	dir := w.synth(t, "broken", "broken", []string{"tableName=broken"}, func(all resources) {
		for _, r := range all {
			if r["Type"] == "Custom::ZaeLimiterSetup" {
				r["Properties"].(map[string]any)["AuditRetentionDays"] = "never"
				r["DependsOn"] = []any{"Table", "ArchiveBucket", "FailedRecordsBucket"}
			}
		}
	})
	out, err := w.cdk("deploy", "--app", dir, "--require-approval", "never")
	if err == nil {
		t.Fatalf("it did not fail:\n%s", out)
	}
	if !strings.Contains(err.Error(), "AuditRetentionDays=never") {
		t.Errorf("the reason is missing: %v", err)
	}
	eventually(t, "everything is gone", patience, func() error {
		_, err := w.dynamodb(root).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("broken")})
		if _, gone := errors.AsType[*types.ResourceNotFoundException](err); !gone {
			return fmt.Errorf("the table exists, or %w", err)
		}
		if left := w.buckets(t); len(left) > 0 {
			return fmt.Errorf("buckets %v exist", left)
		}
		return nil
	})
	check.NoError(t, check.Err(w.cloudformation().DeleteStack(t.Context(),
		&cloudformation.DeleteStackInput{StackName: aws.String("broken")})))
}

func (w *world) deployed(t *testing.T) {
	w.first = w.synth(t, "first", stack, []string{"namespaces=default,team-a", "tags=team=platform"}, nil)
	w.mustCDK(t, "deploy", "--app", w.first, "--require-approval", "never")
	w.read(t)
	w.made = *w.describe(t, tableName).CreationDateTime
	for _, name := range []string{"TableName", "NamespaceIds", "AcquirePolicyArn", "AggregatorFunctionName",
		"FailedRecordsBucketName"} {
		if w.outputs[name] == "" {
			t.Errorf("no output %s in %v", name, w.outputs)
		}
	}
	for _, name := range []string{"default", "team-a"} {
		if !strings.Contains(w.outputs["NamespaceIds"], name+"=") {
			t.Errorf("namespace %s is not registered: %q", name, w.outputs["NamespaceIds"])
		}
	}
	w.app = w.user(t, "application", w.outputs["AcquirePolicyArn"])
}

// acquire takes n requests for an entity, and records them as granted.
func (w *world) acquire(ctx context.Context, id identity, entity string, n int64) error {
	l, err := limiter.Open(ctx, w.dynamodb(id), w.table, &limiter.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	for range n {
		lease, err := l.Acquire(ctx, limiter.Request{
			Entity: entity, Resource: "api", Costs: limiter.Costs{"rpm": 1},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 10_000)},
		})
		if err != nil {
			return err
		}
		w.granted[entity]++
		if err := lease.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// counted compares the usage of an entity with its grants.
func (w *world) counted(t *testing.T, entity string) {
	t.Helper()
	ns := w.namespace(t)
	eventually(t, "usage of "+entity+" is counted", patience, func() error {
		out, err := w.dynamodb(root).Query(t.Context(), &dynamodb.QueryInput{
			TableName: aws.String(w.table), ConsistentRead: aws.Bool(true),
			KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":pk": &types.AttributeValueMemberS{Value: layout.EntityKey(ns, entity).PK},
				":sk": &types.AttributeValueMemberS{Value: "#USAGE#"},
			},
		})
		if err != nil {
			return err
		}
		counts := map[string]int64{}
		for _, it := range out.Items {
			s, err := ledger.DecodeSnapshot(it)
			if err != nil {
				return err
			}
			counts[s.Window] += s.Counts["rpm"]
		}
		for _, window := range []string{"hourly", "daily"} {
			if counts[window] != w.granted[entity] {
				return fmt.Errorf("%s: %d counted of %d", window, counts[window], w.granted[entity])
			}
		}
		return nil
	})
}

func (w *world) clientRuns(t *testing.T) {
	for _, entity := range []string{"acme", "umbrella"} {
		check.Must(t, w.acquire(t.Context(), w.app, entity, 25))
	}
	w.counted(t, "acme")
	w.counted(t, "umbrella")
}

func (w *world) unchanged(t *testing.T) {
	w.mustCDK(t, "diff", "--app", w.first, "--fail")
	out := w.mustCDK(t, "deploy", "--app", w.first, "--require-approval", "never")
	if !strings.Contains(out, "no changes") {
		t.Errorf("the second deployment changed something:\n%s", out)
	}
}

// updateRefused tries an update that would replace the table, and one that DynamoDB cannot do. Both
// end before anything is deployed.
func (w *world) updateRefused(t *testing.T) {
	for option, want := range map[string]string{
		"gsi2Projection=ALL": "the projection of index GSI2 would change from KEYS_ONLY to ALL",
		"tableName=other":    "its name would change from zae-limiter to other",
	} {
		_, err := w.cdk("synth", "--quiet", "--output", filepath.Join(w.dir, "refused"), "-c", contextPrefix+option)
		check.Says(t, err, want, "%s: error", option)
	}
}

// second are the changed options.
var second = []string{
	"namespaces=default,team-a,team-b", "tags=team=platform", "maxShards=8", "snapshotTtlDays=30",
	"archiverMemoryMiB=192",
	"logRetentionDays=400", "alarmIteratorAgeSeconds=60",
	"manifests=infra/cdk/app/testdata/limits.yaml",
}

func (w *world) changed(t *testing.T) {
	dir := w.synth(t, "second", stack, second, nil)
	w.mustCDK(t, "deploy", "--app", dir, "--require-approval", "never")
	w.first = dir
	before := w.outputs
	w.read(t)
	for name, value := range before {
		if name != "NamespaceIds" && w.outputs[name] != value {
			t.Errorf("%s was %s and is %s: it was replaced", name, value, w.outputs[name])
		}
	}
	if made := *w.describe(t, tableName).CreationDateTime; !made.Equal(w.made) {
		t.Errorf("the table was made at %v and again at %v", w.made, made)
	}
	if !strings.HasPrefix(w.outputs["NamespaceIds"], before["NamespaceIds"]+",team-b=") {
		t.Errorf("namespaces %q, before %q", w.outputs["NamespaceIds"], before["NamespaceIds"])
	}
	fn, err := w.lambda().GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: aws.String(w.outputs["AggregatorFunctionName"]),
	})
	check.Must(t, err)
	check.Equal(t, fn.Environment.Variables["MAX_SHARDS"], "8", "MAX_SHARDS")
	check.Must(t, w.acquire(t.Context(), w.app, "acme", 5))
	w.counted(t, "acme")
	w.declared(t)
}

// declared checks the limits of the deployed manifest.
func (w *world) declared(t *testing.T) {
	all, err := admin.Open(t.Context(), w.dynamodb(root), w.table, nil)
	check.Must(t, err)
	ns, err := all.Namespace(t.Context(), "team-a")
	check.Must(t, err)
	stored, err := ns.Config(t.Context(), admin.Scope{})
	if err != nil || len(stored.Limits) != 1 || stored.Limits[0].Capacity != 100 {
		t.Errorf("limits %v, error %v, want those of the manifest", stored.Limits, err)
	}
}

func (w *world) destroyed(t *testing.T) {
	w.mustCDK(t, "destroy", "--app", w.first, "--force")
	if made := *w.describe(t, tableName).CreationDateTime; !made.Equal(w.made) {
		t.Error("the table is another one")
	}
	left := w.buckets(t)
	check.Equal(t, len(left), 2, "buckets %v, want the archive and the failed records", left)
	// Clients go on without the stack, with their own permissions.
	check.NoError(t, w.acquire(t.Context(), root, "acme", 3))
}

// imported adopts the table and the buckets, as docs/deploying.md describes, and deploys the rest.
// Grants in between are counted too.
func (w *world) imported(t *testing.T) {
	mapping, err := json.Marshal(map[string]map[string]string{
		"Table":               {"TableName": tableName},
		"ArchiveBucket":       {"BucketName": w.outputs["ArchiveBucketName"]},
		"FailedRecordsBucket": {"BucketName": w.outputs["FailedRecordsBucketName"]},
	})
	check.Must(t, err)
	path := filepath.Join(w.dir, "import.json")
	check.Must(t, os.WriteFile(path, mapping, 0o644))
	w.mustCDK(t, "import", "--app", w.first, "--resource-mapping", path, "--force")
	w.mustCDK(t, "deploy", "--app", w.first, "--require-approval", "never")
	before := w.outputs["NamespaceIds"]
	w.read(t)
	if w.outputs["NamespaceIds"] != before {
		t.Errorf("namespaces were %q and are %q", before, w.outputs["NamespaceIds"])
	}
	if made := *w.describe(t, tableName).CreationDateTime; !made.Equal(w.made) {
		t.Error("the table is another one")
	}
	app := w.user(t, "application-again", w.outputs["AcquirePolicyArn"])
	check.Must(t, w.acquire(t.Context(), app, "acme", 4))
	w.counted(t, "acme")
}
