//go:build deploy

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// adopted makes a table of the real Python client part of a stack of ours, as docs/deploying.md
// describes, while both clients go on. The aggregator is paused at first, and then counts the
// stream.
func (w *world) adopted(t *testing.T) {
	const name, stack = "python-limits", "adopted"
	w.python(t, name, "acme", 5)
	_, err := w.cdk("synth", "--quiet", "--output", filepath.Join(w.dir, "unlike"),
		"-c", contextPrefix+"stackName="+stack, "-c", contextPrefix+"tableName="+name)
	check.Says(t, err, "the projection of index GSI2 would change from ALL to KEYS_ONLY",
		"a table that is unlike the options")
	options := []string{"tableName=" + name, "gsi2Projection=ALL", "maxShards=1", "aggregatorPaused=true"}
	paused := w.synth(t, "adopted", stack, options, nil)
	mapping := filepath.Join(w.dir, "adopt.json")
	check.Must(t, os.WriteFile(mapping, []byte(`{"Table":{"TableName":"`+name+`"}}`), 0o644))
	made := *w.describe(t, name).CreationDateTime
	w.mustCDK(t, "import", "--app", paused, "--resource-mapping", mapping, "--force")
	w.mustCDK(t, "deploy", "--app", paused, "--require-approval", "never")
	if !made.Equal(*w.describe(t, name).CreationDateTime) {
		t.Error("the table is another one")
	}
	w.python(t, name, "acme", 3)
	ours := &world{emulator: w.emulator, granted: map[string]int64{"acme": 8}, stack: stack, table: name}
	ours.read(t)
	app := w.user(t, "adopter", ours.outputs["AcquirePolicyArn"])
	check.Must(t, ours.acquire(t.Context(), app, "acme", 4))
	w.python(t, name, "acme", 2)
	ours.granted["acme"] += 2
	check.Equal(t, w.usageItems(t, name), 0, "snapshots, although the aggregator is paused")
	going := w.synth(t, "going", stack, options[:3], nil)
	w.mustCDK(t, "deploy", "--app", going, "--require-approval", "never")
	ours.counted(t, "acme")
}

// python makes the real Python client acquire from a table, and create it first.
func (w *world) python(t *testing.T, table, entity string, times int) {
	t.Helper()
	python := filepath.Join(w.emulator.root, ".cache", "python", "0.10.3", "bin", "python")
	cmd := exec.Command(python, "python.py", table, entity, strconv.Itoa(times))
	cmd.Env = append(w.env, "AWS_DEFAULT_REGION="+region)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("Python: %v\n%s", err, out)
	}
}

// usageItems counts the snapshots of a table.
func (w *world) usageItems(t *testing.T, table string) int {
	t.Helper()
	out, err := w.dynamodb(root).Scan(t.Context(), &dynamodb.ScanInput{
		TableName: aws.String(table), FilterExpression: aws.String("begins_with(SK, :sk)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":sk": text("#USAGE#")},
	})
	check.Must(t, err)
	return len(out.Items)
}
