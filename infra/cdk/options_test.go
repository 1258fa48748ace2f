package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestOptionsDefaultWithoutContext(t *testing.T) {
	for _, context := range []map[string]any{nil, {"@aws-cdk/core:someFlag": true, "cli-telemetry": false}} {
		got, err := optionsFromContext(context)
		if err != nil || got != defaultOptions() {
			t.Errorf("context %v: %+v, error %v", context, got, err)
		}
	}
}

func TestBadOptionsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"stackName", "-prod", "context zae-limiter:stackName=-prod: accepted: 3 to 128 letters, digits and hyphens, a letter first"},
		{"stackName", "ab", "3 to 128"},
		{"stackName", float64(7), "3 to 128"},
		{"gsi2Projection", "INCLUDE", "context zae-limiter:gsi2Projection=INCLUDE: accepted: KEYS_ONLY or ALL"},
		{"gsi2Projection", "all", "KEYS_ONLY or ALL"},
		{"snapshotWindows", "", "context zae-limiter:snapshotWindows=: accepted: hourly, daily and monthly, separated by commas"},
		{"snapshotWindows", []any{"hourly"}, "separated by commas"},
		{"snapshotWindows", "hourly,weekly", "snapshotWindows=hourly,weekly"},
		{"snapshotWindows", "daily,daily", "each at most once"},
		{"snapshotTtlDays", "0", "1 to 3650"},
		{"snapshotTtlDays", float64(3651), "1 to 3650"},
		{"snapshotTtlDays", 1.5, "1 to 3650"},
		{"snapshotTtlDays", true, "1 to 3650"},
		{"snapshotTtlDays", "", "1 to 3650"},
		{"snapshotTtlDays", nil, "1 to 3650"},
		{"maxShards", "3", "context zae-limiter:maxShards=3: accepted: a power of two from 1 to 1024"},
		{"maxShards", "2048", "1 to 1024"},
		{"maxShards", "many", "maxShards=many"},
		{"writeConcurrency", "0", "1 to 256"},
		{"logRetentionDays", "31", "one of 1, 3, 5, 7, 14, 30"},
		{"alarmTopicArn", "on-call", "alarmTopicArn=on-call: accepted: the ARN of an SNS topic"},
		{"alarmTopicArn", nil, "ARN of an SNS topic"},
		{"maxShard", "8", "context zae-limiter:maxShard=8: accepted: one of the keys"},
	} {
		_, err := optionsFromContext(map[string]any{contextPrefix + c.key: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%v: error %v, want it to say %q", c.key, c.value, err, c.want)
		}
	}
}

func TestAllBadOptionsAreReportedTogether(t *testing.T) {
	_, err := optionsFromContext(map[string]any{"zae-limiter:maxShards": "3", "zae-limiter:gsi2Projection": "?"})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("error %v, want two lines", err)
	}
}

func TestMissingOrForeignProgramsAreRefused(t *testing.T) {
	dist := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dist, "foreign"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dist, "foreign", "bootstrap")); err != nil {
		t.Fatal(err)
	}
	err = checkBuilt(dist, "missing", "foreign")
	if err == nil || !strings.Contains(err.Error(), "function missing: ") || !strings.Contains(err.Error(), "run make build") {
		t.Errorf("missing program: error %v", err)
	}
	deployable := runtime.GOOS == "linux" && runtime.GOARCH == "arm64"
	if strings.Contains(err.Error(), "function foreign: ") == deployable {
		t.Errorf("program of this machine: error %v", err)
	}
}

// A list or a number is passed on as the function reads it.
func TestOptionsOfTheAggregator(t *testing.T) {
	got, err := optionsFromContext(map[string]any{
		"zae-limiter:snapshotWindows":  "hourly, monthly",
		"zae-limiter:snapshotTtlDays":  float64(3650),
		"zae-limiter:maxShards":        "1024",
		"zae-limiter:writeConcurrency": float64(1),
	})
	want := defaultOptions()
	want.SnapshotWindows, want.SnapshotTTLDays, want.MaxShards, want.WriteConcurrency = "hourly,monthly", 3650, 1024, 1
	if err != nil || got != want {
		t.Errorf("%+v, error %v, want %+v", got, err, want)
	}
}
