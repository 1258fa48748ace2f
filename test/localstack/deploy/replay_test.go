//go:build deploy

package deploy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// replayed puts a batch that was given up, and a malformed record that this release can decode,
// into the bucket, and has them delivered again. The trials of the roles have left two malformed
// records that it cannot decode.
func (w *world) replayed(t *testing.T) {
	event, err := os.ReadFile(filepath.Join(w.emulator.root, "events", "aggregator-several-entities.json"))
	check.Must(t, err)
	fn, err := w.lambda().GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: aws.String(w.outputs["AggregatorFunctionName"]),
	})
	check.Must(t, err)
	envelope, err := json.Marshal(map[string]any{
		"requestContext": map[string]any{"functionArn": *fn.FunctionArn, "condition": "RecordAgeExceeded"},
		"payload":        string(event),
	})
	check.Must(t, err)
	bucket := w.outputs["FailedRecordsBucketName"]
	w.put(t, bucket, "aws/lambda/mapping/shard/2026/01/01/batch", envelope)
	w.put(t, bucket, "malformed/year=2026/month=01/day=01/1-hash.jsonl.gz", setAside(t, event))

	looked, err := w.replay()
	if err == nil || !strings.Contains(looked, "4 objects, 4 left") || !batchLookedAt.MatchString(looked) {
		t.Errorf("listed: %v\n%s", err, looked)
	}
	// It may be repeated, and must be if the emulator answers before it has read the end of the
	// function's log.
	var delivered string
	for range 5 {
		said, answer := w.replay("--deliver", "--yes")
		delivered, err = delivered+said, answer
		if strings.Contains(said, " 2 left") {
			break
		}
	}
	if err == nil || !strings.Contains(delivered, " 2 left") || strings.Count(delivered, "  done  ") != 2 {
		t.Errorf("delivered: %v\n%s", err, delivered)
	}
	again, err := w.replay()
	if err == nil || !strings.Contains(again, "2 objects, 2 left") || strings.Count(again, "  still malformed  ") != 2 {
		t.Errorf("listed again: %v\n%s", err, again)
	}
}

// batchLookedAt matches the row of a batch that AWS gave up.
var batchLookedAt = regexp.MustCompile(
	`(?m)^aws/lambda/\S+ +looked at +aggregator +[0-9]+ +RecordAgeExceeded +rpm hourly [0-9]+`)

// setAside returns the first record of a payload in the form in which functions store records that
// they cannot decode.
func setAside(t *testing.T, payload []byte) []byte {
	t.Helper()
	var p struct{ Records []json.RawMessage }
	check.Must(t, json.Unmarshal(payload, &p))
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	fmt.Fprintf(zip, `{"reason":"too new","sequence_number":"1","record":%s}`+"\n",
		bytes.ReplaceAll(p.Records[0], []byte("\n"), nil))
	check.Must(t, zip.Close())
	return b.Bytes()
}

func (w *world) put(t *testing.T, bucket, key string, body []byte) {
	t.Helper()
	_, err := w.s3().PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String(key), Body: bytes.NewReader(body),
	})
	check.Must(t, err)
}

func (w *world) replay(args ...string) (string, error) {
	return w.tool(append([]string{"replay"}, args...)...)
}

// tool runs the command-line tool.
func (w *world) tool(args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"run", "-C", filepath.Join(w.emulator.root, "cmd", "zae-limiter"), "."},
		args...)...)
	cmd.Env = w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shown checks that the tool lists both functions. Their health is missing, because the emulator
// answers CloudWatch in a form that the SDK cannot read.
func (w *world) shown(t *testing.T) {
	status, _ := w.tool("status") // fails: the emulator's CloudFormation does not set time to live
	for _, name := range []string{"AggregatorFunctionName", "ArchiverFunctionName"} {
		if fed := regexp.MustCompile(`function +` + w.outputs[name] + ` +Enabled`); !fed.MatchString(status) {
			t.Errorf("function %s is not shown:\n%s", w.outputs[name], status)
		}
	}
}
