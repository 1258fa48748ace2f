package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// With only the environment that dev prints, a program can limit requests, and usage is counted. An
// interrupt ends dev with success.
func TestDev(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "dev", "--emulators", engine.Root(), "-o", "json")
	cmd.Env = append(os.Environ(), "ZAEL_STACK=mine", "ZAEL_NAMESPACE=team")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	var env map[string]string
	check.Must(t, json.Unmarshal([]byte(line), &env), "%s", line)
	s := &shell{T: t, env: []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}}
	for name, value := range env {
		t.Setenv(name, value)
		s.env = append(s.env, name+"="+value)
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	check.Must(t, err)
	l, err := limiter.Open(t.Context(), dynamodb.NewFromConfig(cfg), "mine",
		&limiter.Options{Namespace: "team", Timeout: time.Minute})
	check.Must(t, err)
	for range 3 {
		lease, err := l.Acquire(t.Context(), limiter.Request{
			Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 2},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)},
		})
		check.Must(t, err)
		check.Must(t, lease.Commit(t.Context()))
	}
	type window struct{ Tokens map[string]int64 }
	for counted := int64(0); counted != 6; time.Sleep(50 * time.Millisecond) {
		if all := prints[[]window](s, "usage -e acme -w monthly"); len(all) > 0 {
			counted = all[0].Tokens["rpm"]
		}
		if t.Context().Err() != nil {
			t.Fatalf("%d of 6 tokens are counted: %s", counted, &errs)
		}
	}
	s.says(0, "status", "ACTIVE", "ENABLED", "team")
	check.Must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v: %s", err, &errs)
	}
}

// A command runs in the environment, and dev ends with its exit status.
func TestDevRunsACommand(t *testing.T) {
	s := &shell{T: t, env: []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}}
	dev := []string{"dev", "--emulators", engine.Root(), "--no-functions", "--"}
	out, _ := s.run(0, append(dev, binary, "namespace", "list", "-o", "csv")...)
	if !strings.Contains(out, "default,") {
		t.Errorf("the namespace is not there: %s", out)
	}
	s.run(7, append(dev, "sh", "-c", "exit 7")...)
	s.says(1, "dev --emulators "+engine.Root()+" -- no-such-command", "no-such-command")
	s.says(2, "dev go test", "zae-limiter dev -- go")
	s.says(2, "dev --engine redis", "accepted are dynoxide and dynamodb-local")
	s.env = []string{"HOME=" + t.TempDir(), "PATH=" + t.TempDir()}
	s.says(1, "dev", "no local DynamoDB", "npm", "--emulators")
}

// Status reports a healthy table whose stream has no reader. Problems are tested in
// cmd/zae-limiter.
func TestStatus(t *testing.T) {
	s := onTable(t)
	s.says(0, "status", "ACTIVE", "as it must be", "schema 0.9.0", "default", "ENABLED NEW_AND_OLD_IMAGES",
		"functions none local")
	type status struct {
		OK    bool
		Parts []struct {
			Part, State string
			OK          bool
			Figures     map[string]any
		}
	}
	got := prints[status](s, "status")
	if !got.OK || len(got.Parts) != 6 || got.Parts[4].Part != "stream" || got.Parts[4].Figures["shards"] != 1.0 {
		t.Errorf("status: %+v", got)
	}
	s.says(1, "status -t no-such-table", "There is no table", "zae-limiter table create")
}
