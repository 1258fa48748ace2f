package function

import (
	"reflect"
	"strings"
	"testing"
)

func getenv(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestAggregatorFromEnv(t *testing.T) {
	got, err := AggregatorFromEnv(getenv(map[string]string{EnvTableName: "limits"}))
	want := Aggregator{TableName: "limits", Windows: []string{"hourly", "daily"},
		SnapshotTTLDays: 90, MaxShards: 32, MergeAfter: 600, WriteConcurrency: 16}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("defaults: %+v, %v", got, err)
	}
	got, err = AggregatorFromEnv(getenv(map[string]string{
		EnvTableName: " my.limits_1-x ", EnvSnapshotWindows: " monthly , hourly ", EnvSnapshotTTLDays: "3650",
		EnvMaxShards: "1", EnvWriteConcurrency: "256", EnvMaxWriteUnits: "40000", EnvMergeAfterSeconds: "5",
		EnvDeadLetterBucketName: "dead-letters",
	}))
	want = Aggregator{TableName: "my.limits_1-x", Windows: []string{"monthly", "hourly"},
		SnapshotTTLDays: 3650, MaxShards: 1, MergeAfter: 5, WriteConcurrency: 256, MaxWriteUnits: 40_000,
		DeadLetterBucketName: "dead-letters"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("all set: %+v, %v", got, err)
	}
}

func TestAggregatorFromEnvNamesEveryProblem(t *testing.T) {
	for name, values := range map[string][]string{
		EnvTableName:            {"", "ab", "a b c", "table/x", strings.Repeat("x", 256)},
		EnvSnapshotWindows:      {"weekly", "hourly,hourly", "hourly,", ",", "Hourly", "hourly;daily"},
		EnvSnapshotTTLDays:      {"0", "-1", "3651", "90.5", "ninety", "1e2"},
		EnvMaxShards:            {"0", "3", "2048", "-2", "x"},
		EnvMergeAfterSeconds:    {"0", "86401", "10m"},
		EnvWriteConcurrency:     {"0", "257", "many"},
		EnvMaxWriteUnits:        {"0", "40001", "many"},
		EnvDeadLetterBucketName: {"No_Bucket", "a", "-ab", "ab.", "aBc", "a b", strings.Repeat("x", 64)},
	} {
		for _, v := range values {
			m := map[string]string{EnvTableName: "limits", name: v}
			c, err := AggregatorFromEnv(getenv(m))
			if err == nil || !reflect.DeepEqual(c, Aggregator{}) || !strings.HasPrefix(err.Error(), name+`="`+v+`": want `) {
				t.Errorf("%s=%q: %+v, %v", name, v, c, err)
			}
		}
	}
	_, err := AggregatorFromEnv(getenv(map[string]string{
		EnvSnapshotWindows: "x", EnvSnapshotTTLDays: "x", EnvMaxShards: "x", EnvWriteConcurrency: "x",
		EnvDeadLetterBucketName: "X", EnvMergeAfterSeconds: "x",
	}))
	for _, name := range []string{EnvTableName, EnvSnapshotWindows, EnvSnapshotTTLDays, EnvMaxShards, EnvWriteConcurrency,
		EnvDeadLetterBucketName, EnvMergeAfterSeconds} {
		if err == nil || strings.Count(err.Error(), name+"=") != 1 {
			t.Errorf("%s is not named once in: %v", name, err)
		}
	}
}
