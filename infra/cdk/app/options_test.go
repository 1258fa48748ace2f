package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestOptionsDefaultWithoutContext(t *testing.T) {
	for _, context := range []map[string]any{nil, {
		"@aws-cdk/core:someFlag": true, "cli-telemetry": false, "aws:cdk:toolkit:version": "1",
		"availability-zones:account=1:region=x": "a",
		"acme:stackSize":                        3.0,
	}} {
		got, err := optionsFromContext(context)
		if err != nil || !reflect.DeepEqual(got, options{StackName: "zae-limiter-go"}) {
			t.Errorf("context %v: %+v, error %v", context, got, err)
		}
	}
}

// TestChangedContextChangesEveryOption keeps the second template of the tests
// complete: what is new must be in one of them.
func TestChangedContextChangesEveryOption(t *testing.T) {
	for _, o := range option.Of(options{}) {
		key := contextPrefix + o.Key
		if changedContext[key] == nil && bareContext[key] == nil && provisionedContext[key] == nil {
			t.Errorf("no test sets %s", key)
		}
	}
	for _, given := range []map[string]any{changedContext, bareContext, provisionedContext} {
		check.NoError(t, check.Err(optionsFromContext(given)))
	}
}

func TestBadOptionsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"stackName", "-prod", "context zae-limiter:stackName=-prod: accepted: 1 to 128 letters, digits and hyphens, a " +
			"letter first"},
		{"tableName", "ab", "3 to 255"},
		{"tableName", "a,b", "3 to 255"},
		{"gsi2Projection", "INCLUDE", "context zae-limiter:gsi2Projection=INCLUDE: accepted: one of KEYS_ONLY, ALL"},
		{"gsi2Projection", "all", "KEYS_ONLY, ALL"},
		{"billingMode", "PROVISIONED", "billingMode=PROVISIONED: accepted: one of onDemand, provisioned"},
		{"targetUtilizationPercent", "95", "from 20 to 90"},
		{"namespaces", "-x", "separated by commas"},
		{"namespaces", "a b", "separated by commas"},
		{"namespaces", "default,_", "not _ alone"},
		{"snapshotWindows", "",
			"context zae-limiter:snapshotWindows=: accepted: hourly, daily, monthly, separated by commas"},
		{"snapshotWindows", "hourly,weekly", "snapshotWindows=hourly,weekly"},
		{"snapshotWindows", "daily,daily", "each at most once"},
		{"snapshotTtlDays", "0", "from 1 to 3650"},
		{"snapshotTtlDays", float64(3651), "from 1 to 3650"},
		{"snapshotTtlDays", 1.5, "from 1 to 3650"},
		{"snapshotTtlDays", true, "from 1 to 3650"},
		{"snapshotTtlDays", nil, "from 1 to 3650"},
		{"maxShards", "3", "context zae-limiter:maxShards=3: accepted: one of 1, 2, 4, 8"},
		{"logRetentionDays", "31", "one of 1, 3, 5, 7, 14, 30"},
		{"alarmTopicArn", "on-call", "alarmTopicArn=on-call: accepted: the ARN of an SNS topic"},
		{"alertTargetArn", "alerts", "alertTargetArn=alerts: accepted: the ARN of an event bus or of a standard SNS topic"},
		{"alertTargetArn", "arn:aws:sns:eu-west-1:123456789012:a.fifo", "a standard SNS topic"},
		{"alertTargetArn", "arn:aws:sns:eu-west-1:123456789012:a,arn:aws:events:eu-west-1:123456789012:event-bus/b",
			"the ARN of an event bus or"},
		{"thresholds", "0", "context zae-limiter:thresholds=0: accepted: percents from 1 to 100 such as 80, or budget=80"},
		{"thresholds", "80,101", "thresholds=80,101: accepted: percents"},
		{"thresholds", "budget=80,budget=80", "each at most once"},
		{"thresholds", "80%", "from 1 to 100"},
		{"aggregatorOff", "yes", "true or false"},
		{"tags", "team", "name=value"},
		{"tags", "a=1,a=2", "name=value"},
		{"roleNameFormat", "fixed", "{} once"},
		{"keyArn", "alias/limits", "the ARN of a KMS key"},
		{"manifests", "none.yaml", "context zae-limiter:manifests: open none.yaml: no such file"},
		{"manifests", "cli_test.go", "manifest: "},
		{"manifests", "testdata/limits.yaml,./testdata/limits.yaml", `two declare namespace "team-a"`},
		{"maxShard", "8", "context zae-limiter:maxShard: did you mean zae-limiter:maxShards?"},
		{"aggregatorMemory", "8", "no such option; there are aggregatorBatchSize, "},
	} {
		_, err := optionsFromContext(map[string]any{contextPrefix + c.key: c.value})
		check.Says(t, err, c.want, "%s=%v", c.key, c.value)
	}
}

func TestKeysThatLookLikeOursAreRefused(t *testing.T) {
	for key, meant := range map[string]string{
		"tableName": "tableName", "zae-limiter.tableName": "tableName", "zaelimiter:maxshards": "maxShards",
		"zae-limiter-go:log_level": "logLevel", "limiter/stackName": "stackName", "gsi2Projektion": "gsi2Projection",
	} {
		_, err := optionsFromContext(map[string]any{key: "x"})
		want := fmt.Sprintf("context %s: did you mean zae-limiter:%s?", key, meant)
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", key, err, want)
		}
	}
}

func TestAllBadOptionsAreReportedTogether(t *testing.T) {
	_, err := optionsFromContext(map[string]any{
		"zae-limiter:maxShards": "3", "zae-limiter:gsi2Projection": "?", "tablename": "x", "zae-limiter:logLevle": "INFO",
	})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 4 {
		t.Errorf("error %v, want four lines", err)
	}
}

func TestOptionsThatContradictEachOther(t *testing.T) {
	for _, c := range []struct {
		given map[string]any
		want  string
	}{
		{map[string]any{"archiverOff": "true", "archiveExpiryDays": "10"}, "there is no archive"},
		{map[string]any{"existingStreamArn": bareContext["zae-limiter:existingStreamArn"], "tableName": "other"},
			`not the stream of table "other"`},
	} {
		context := map[string]any{}
		for key, value := range c.given {
			context[contextPrefix+key] = value
		}
		check.Says(t, check.Err(optionsFromContext(context)), c.want, "%v", c.given)
	}
}

// TestTableOfOptionsInTheREADME compares the table with the code. make golden
// writes it.
func TestTableOfOptionsInTheREADME(t *testing.T) {
	const path, begin, end = "../README.md", "<!-- options: written by make golden -->\n", "<!-- end of options -->"
	var b strings.Builder
	b.WriteString("| key | default | accepted |\n|---|---|---|\n")
	for _, o := range option.Of(options{}) {
		accepted := o.Accepts
		if o.Note != "" {
			accepted += "; " + o.Note
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.Key, o.Default, accepted)
	}
	text, err := os.ReadFile(path)
	check.Must(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	is, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the options", path)
	}
	if is == b.String() {
		return
	}
	if !*update {
		t.Fatalf("the options in %s are not those of the code: run make golden", path)
	}
	check.Must(t, os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o644))
}

func TestMissingOrForeignProgramsAreRefused(t *testing.T) {
	dist := t.TempDir()
	self, err := os.Executable()
	check.Must(t, err)
	check.Must(t, os.Mkdir(filepath.Join(dist, "foreign"), 0o755))
	check.Must(t, os.Symlink(self, filepath.Join(dist, "foreign", "bootstrap")))
	err = checkBuilt(dist, "missing", "foreign")
	check.Says(t, err, "function missing: ")
	check.Says(t, err, "run make build")
	deployable := runtime.GOOS == "linux" && runtime.GOARCH == "arm64"
	if strings.Contains(err.Error(), "function foreign: ") == deployable {
		t.Errorf("program of this machine: error %v", err)
	}
}

// Values arrive as the fields have them, whatever form the context gives them.
func TestOptionsReachTheProperties(t *testing.T) {
	got, err := optionsFromContext(map[string]any{
		"zae-limiter:snapshotWindows": "hourly, monthly",
		"zae-limiter:snapshotTtlDays": float64(3650),
		"zae-limiter:maxShards":       "1024",
		"zae-limiter:namespaces":      []any{"a", "b"},
		"zae-limiter:archiverOff":     true,
		"zae-limiter:tags":            map[string]any{"team": "platform"},
	})
	want := options{StackName: "zae-limiter-go", Limiter: cdk.Props{
		SnapshotWindows: []string{"hourly", "monthly"}, SnapshotTTLDays: 3650, MaxShards: 1024,
		Namespaces: []string{"a", "b"},
		Archiver:   cdk.ArchiverProps{Off: true}, Tags: map[string]string{"team": "platform"},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, error %v, want %+v", got, err, want)
	}
}
