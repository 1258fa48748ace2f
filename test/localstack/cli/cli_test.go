// Package cli runs the built command-line tool on a stand-in.
package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/tablespec"
)

// binary is the built tool.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "zae-limiter")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "zae-limiter")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Dir = filepath.Join(engine.Root(), "..", "..", "cmd", "zae-limiter")
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
		defer engine.StopShared()
		return m.Run()
	}())
}

// shell runs commands on one table.
type shell struct {
	*testing.T
	env   []string
	stdin string
}

func newShell(t *testing.T, e *engine.Engine, name string) *shell {
	return &shell{T: t, env: append(e.Env(), "ZAEL_STACK="+name, "HOME="+t.TempDir())}
}

// run runs a command, which must end in the status, and returns what it wrote.
func (s *shell) run(status int, args ...string) (out, errs string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(s.Context(), binary, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.env, strings.NewReader(s.stdin), &stdout, &stderr
	err := cmd.Run()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		s.Fatalf("zae-limiter %v ended in %d, want %d\n%s%s", args, got, status, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// says runs a command and wants each text in what it wrote.
func (s *shell) says(status int, command string, texts ...string) {
	s.Helper()
	out, errs := s.run(status, strings.Fields(command)...)
	for _, text := range texts {
		if !strings.Contains(squeeze(out+errs), text) {
			s.Errorf("zae-limiter %s does not say %q:\n%s%s", command, text, out, errs)
		}
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// prints runs a command with -o json into a value.
func prints[T any](s *shell, command string) (v T) {
	s.Helper()
	out, _ := s.run(0, append(strings.Fields(command), "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		s.Fatalf("zae-limiter %s: %v\n%s", command, err, out)
	}
	return v
}

// From no table to a limited entity that is looked after.
func TestFromNothingToALimitedService(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	name := engine.UniqueName("cli")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	s := newShell(t, e, name)

	s.says(1, "namespace list", "There is no table", "zae-limiter table create")
	s.says(1, "table describe", "There is no table")
	s.says(0, "table create", "ACTIVE", "NEW_AND_OLD_IMAGES")
	s.says(0, "table create", "ACTIVE")
	s.says(0, "table check", "ACTIVE")
	s.says(1, "limits list", "zae-limiter namespace register default")
	s.says(0, "namespace register default", "default", "active")
	s.says(0, "namespace list", "default")

	s.says(3, "peek acme gpt-4", "zae-limiter limits set")
	s.says(3, "limits resolve acme gpt-4", "no limits configured")
	s.says(0, "limits set -y -r gpt-4 rpm=10 tpm=1000/m:2000", "* gpt-4 rpm 10 10 1m0s", "tpm 2000 1000 1m0s")
	s.says(0, "limits set -y -e acme -r gpt-4 rpm=20/h")
	s.says(0, "limits set -y --everybody images=blocked", "* * images", "blocked")
	s.says(0, "limits resolve acme gpt-4", "yes acme gpt-4 rpm 20", "no * gpt-4 tpm 2000")
	s.says(0, "limits list", "acme gpt-4 rpm", "* gpt-4 tpm", "* * images")
	s.says(0, "limits list acme", "acme gpt-4 rpm")
	s.says(0, "limits reach", "BUCKETS")

	l, err := limiter.Open(t.Context(), e.DynamoDB(), name, &limiter.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ask := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 15}}
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), ask); !errors.Is(err, limiter.ErrLimited) {
		t.Fatalf("15 and 15 of 20: %v", err)
	}
	type bucket struct {
		Exists bool `json:"exists"`
		Levels []struct {
			Name      string `json:"name"`
			Remaining int64  `json:"remaining"`
			Used      int64  `json:"used"`
		} `json:"levels"`
	}
	got := prints[[]bucket](s, "peek acme gpt-4")
	if len(got) != 1 || !got[0].Exists || got[0].Levels[0].Remaining > 10 || got[0].Levels[0].Used != 15 {
		t.Errorf("peek: %+v", got)
	}
	s.says(0, "credit acme gpt-4 rpm=2", "rpm 2")
	s.says(0, "reset acme gpt-4", "rpm")
	if got := prints[[]bucket](s, "peek acme gpt-4"); got[0].Levels[0].Remaining != 20 {
		t.Errorf("after the reset: %+v", got)
	}
	s.says(0, "limits delete -e acme -r gpt-4 --yes", "acme gpt-4 rpm")
	s.says(1, "limits get -e acme -r gpt-4", "not found")
	s.says(0, "audit -e acme --principal ignored", "bucket_reset", "bucket_credited", "limits_deleted", "limits_set")
}

func onTable(t *testing.T) *shell {
	e := engine.ForTest(t, engine.Dynoxide)
	s := newShell(t, e, tablespec.ForTest(t, e))
	s.run(0, "namespace", "register", "default")
	return s
}

func TestManifests(t *testing.T) {
	s := onTable(t)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("namespace: default\nsystem: {on_unavailable: allow, limits: {rpm: {capacity: 100}}}\n" +
		"resources: {gpt-4: {limits: {tpm: {capacity: 500}}}}\n")
	s.says(3, "plan "+file, "+ create */gpt-4", "+ tpm: 500 per 1m0s", "on unavailable: allow", "2 changes")
	s.says(1, "apply "+file, "nothing was changed", "--yes")
	s.stdin = "n\n"
	s.says(1, "apply "+file, "not confirmed")
	s.stdin = "y\n"
	s.says(0, "apply "+file, "2 changes applied")
	s.says(0, "plan "+file, "nothing to change")
	s.says(0, "policy get", "allow")

	write("namespace: default\nsystem: {limits: {rpm: {capacity: 200}}}\n")
	s.says(3, "plan "+file, "~ update */*", "- rpm: 100 per 1m0s", "+ rpm: 200 per 1m0s", "- delete */gpt-4")
	text, _ := s.run(3, "plan", file, "-o", "json")
	var plan struct {
		Changes int
		Steps   []struct{ Action string }
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil || plan.Changes != 2 || len(plan.Steps) != 2 {
		t.Errorf("%s: %v", text, err)
	}
	s.says(2, "plan "+file+" -n other", "the manifest is for namespace")
	s.says(0, "apply --yes "+file, "2 changes applied")
	s.says(1, "plan no-such-file", "there is no file")
	write("namespace: default\nnovelty: 1\n")
	s.says(2, "plan "+file, "novelty")
	s.stdin = "namespace: default\nsystem: {limits: {rpm: {capacity: 300}}}\n"
	s.says(2, "apply -", "--yes is needed")
	s.says(0, "apply - -y", "1 changes applied")
}

func TestEntitiesAndNamespaces(t *testing.T) {
	s := onTable(t)
	s.says(1, "entity create key-1 --parent acme", "Create the parent first")
	s.says(0, "entity create acme --name Acme", "acme Acme")
	s.run(0, "entity", "create", "key-1", "--parent", "acme", "--charge-parent", "--metadata", `{"tier": "gold"}`)
	s.says(1, "entity create key-1", "exists already")
	s.says(0, "entity children acme", "key-1 key-1 acme true")
	type entity struct {
		ID       string
		Metadata map[string]any
	}
	if got := prints[[]entity](s, "entity get key-1"); len(got) != 1 || got[0].Metadata["tier"] != "gold" {
		t.Errorf("entity: %+v", got)
	}
	s.says(1, "entity delete key-1", "nothing was changed")
	s.says(0, "entity delete key-1 --yes", "ITEMS REMOVED")
	s.says(1, "entity get key-1", "not found")
	out, errs := s.run(0, "entity", "children", "acme")
	if out != "" || !strings.Contains(errs, "nothing there") {
		t.Errorf("no children: %q %q", out, errs)
	}
	if got := prints[[]entity](s, "entity children acme"); got == nil || len(got) != 0 {
		t.Errorf("no children in JSON: %v", got)
	}

	type namespace struct{ ID, Name, Status string }
	id := prints[[]namespace](s, "namespace register prod")[0].ID
	s.says(0, "limits set -y --everybody -n prod rpm=5")
	s.says(1, "namespace purge -y "+id, "namespace list --all")
	s.says(2, "namespace purge -y prod", `"prod" is the name of a namespace in use`)
	s.says(0, "namespace delete prod", "recover "+id)
	s.says(1, "limits list -n prod", "zae-limiter namespace register prod")
	s.says(0, "namespace list --all", "prod "+id+" deleted")
	s.says(0, "namespace recover "+id, "prod", "active")
	s.says(0, "limits list -n prod", "rpm 5")
	s.says(0, "namespace delete prod")
	s.says(0, "namespace purge -y "+id, "ITEMS REMOVED")
	s.says(0, "namespace purge -y "+id, "nothing was there", "ITEMS REMOVED 0")
	if got := prints[[]namespace](s, "namespace list --all"); len(got) != 1 || got[0].Name != "default" {
		t.Errorf("after the purge: %+v", got)
	}
}

func TestPolicyAndNoUsage(t *testing.T) {
	s := onTable(t)
	s.says(0, "policy set --on-unavailable block --audit-retention 30d")
	type policy struct {
		OnUnavailable string `json:"on_unavailable"`
		Days          int    `json:"audit_retention_days"`
	}
	if got := prints[policy](s, "policy get"); got != (policy{"block", 30}) {
		t.Errorf("policy: %+v", got)
	}
	s.says(2, "policy set --on-unavailable maybe", "accepted are")
	s.says(2, "policy set", "nothing to set")
	s.says(2, "usage", "whose usage")
	s.says(2, "usage -e acme --sum", "--sum wants one")
	s.says(2, "usage -e acme --from yesterday", "want dates")
	s.says(0, "usage -e acme", "nothing there")
	s.says(0, "usage -e acme --sum -w daily", "nothing there")
	out, _ := s.run(0, "usage", "-e", "acme", "-o", "csv")
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(all) != 1 || len(all[0]) != 7 {
		t.Errorf("csv: %v, %v", all, err)
	}
}

// Usage is printed window by window and added up, in all three formats.
func TestUsage(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	name := tablespec.ForTest(t, e)
	s := newShell(t, e, name)
	type namespace struct{ ID string }
	id := prints[[]namespace](s, "namespace register default")[0].ID
	for hour := range 24 {
		at := time.Date(2024, 2, 1, hour, 0, 0, 0, time.UTC).Format(time.RFC3339)
		snapshot := table.Snapshot{
			Namespace: id, Entity: "acme", Resource: "gpt-4", Window: "hourly", Start: at, Part: at,
			Counts: map[string]int64{"rpm": 1, "tpm": int64(hour)}, Events: 2,
		}
		in := &dynamodb.PutItemInput{TableName: &name, Item: snapshot.Item()}
		if _, err := e.DynamoDB().PutItem(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	type window struct {
		Start, End string
		Tokens     map[string]int64
		Events     int
	}
	got := prints[[]window](s, "usage -e acme --from 2024-02-01T22:00:00Z --to 2024-02-02")
	if len(got) != 2 || got[1].Start != "2024-02-01T23:00:00Z" || got[1].End != "2024-02-02T00:00:00Z" ||
		got[1].Tokens["tpm"] != 23 || got[1].Events != 2 {
		t.Errorf("the last two hours: %+v", got)
	}
	type sum struct {
		Windows int
		Tokens  map[string]int64
		Mean    map[string]float64
	}
	added := prints[sum](s, "usage -r gpt-4 -w hourly --sum")
	if added.Windows != 24 || added.Tokens["rpm"] != 24 || added.Tokens["tpm"] != 276 || added.Mean["tpm"] != 11.5 {
		t.Errorf("sum: %+v", added)
	}
	s.says(0, "usage -e acme -r gpt-4 --to 2024-02-01T01:00:00Z", "acme gpt-4 hourly 2024-02-01T00:00:00Z rpm 1 2")
	out, _ := s.run(0, "usage", "-e", "acme", "-o", "csv")
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(all) != 1+2*24 {
		t.Errorf("csv: %d lines, %v", len(all), err)
	}
	s.says(0, "usage -e acme --plot --from 2024-02-01T22:00:00Z", "rpm of acme on gpt-4, hourly, tokens",
		"2024-02-01 23:00 "+strings.Repeat("█", 50)+" 23")
	s.says(2, "usage -e acme --plot -o json", "for people")
}

// What is wrong with a command is told before anything is asked of AWS.
func TestWrongCommands(t *testing.T) {
	s := &shell{T: t, env: []string{"HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"}}
	s.says(2, "limit", "there is no command", "limits")
	s.says(2, "limits sett", "set")
	s.says(2, "limits set", "want: zae-limiter limits set")
	s.says(2, "limits set rpm", "like rpm=600")
	s.says(2, "limits delete", "--everybody")
	s.says(2, "limits set rpm=1", "--everybody")
	s.says(2, "limits set -e acme --everybody rpm=1", "acme/* is named")
	s.says(2, "limits list --nonsense", "unknown flag", "--help")
	s.says(2, "limits list -o xml", "accepted are table, csv and json")
	s.says(2, "credit acme gpt-4 rpm", "like tpm=5000")
	s.says(2, "audit -e a -r b", "either")
	s.says(1, "limits list", "Set AWS_REGION")
	s.env = append(s.env, "AWS_REGION=us-east-1")
	s.says(1, "limits list", "No AWS credentials were found")
	s.says(0, "", "Available Commands")
	s.says(0, "completion bash", "zae-limiter")
	s.env = append(s.env, "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_MAX_ATTEMPTS=1")
	s.says(1, "limits list --endpoint-url http://127.0.0.1:1", "Is DynamoDB reachable?")
}

// Changing limits shows what leaves and what comes, and asks; limits that are not
// named stay unless --replace says otherwise.
func TestLimitsAreChangedKnowingly(t *testing.T) {
	s := onTable(t)
	s.says(1, "limits set -r gpt-4 rpm=10 tpm=500", "+ */gpt-4 rpm: 10 per 1m0s",
		"nobody answered; nothing was changed (--yes answers)")
	s.says(1, "limits get -r gpt-4", "not found")
	s.stdin = "y\n"
	s.says(0, "limits set -r gpt-4 rpm=10 tpm=500", "Change the limits of */gpt-4?", "* gpt-4 tpm 500")
	s.stdin = ""
	s.says(0, "limits set -r gpt-4 tpm=500", "nothing to change", "* gpt-4 rpm 10")
	s.says(0, "limits set -r gpt-4 rpm=20 --yes", "- */gpt-4 rpm: 10 per 1m0s", "+ */gpt-4 rpm: 20 per 1m0s",
		"* gpt-4 tpm 500")
	s.stdin = "no\n"
	s.says(1, "limits set -r gpt-4 --replace rpm=30", "- */gpt-4 tpm: 500 per 1m0s", "not confirmed; nothing was changed")
	s.says(1, "limits delete -r gpt-4", "- */gpt-4 rpm: 20", "- */gpt-4 tpm: 500", "Remove the limits of */gpt-4?",
		"not confirmed")
	s.stdin = ""
	s.says(0, "limits get -r gpt-4", "rpm 20", "tpm 500")
	s.says(0, "limits set -r gpt-4 --replace --yes rpm=30", "- */gpt-4 tpm: 500 per 1m0s")
	s.says(0, "policy set --on-unavailable allow")
	s.says(0, "limits set --everybody rpm=1 -y", "+ */* rpm: 1 per 1m0s")
	s.says(0, "limits delete --everybody -y", "- */* rpm: 1 per 1m0s", "* * rpm")
	s.says(0, "policy get", "allow")
	s.says(0, "limits delete -r none", "nothing there")
	got := prints[map[string]struct{ Limits []struct{ Name string } }](s, "limits delete -r gpt-4 --yes")
	if l := got["deleted"].Limits; len(l) != 1 || l[0].Name != "rpm" {
		t.Errorf("deleted %+v", got)
	}
}
