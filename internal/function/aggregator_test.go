package function

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func getenv(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestAggregatorFromEnv(t *testing.T) {
	got, err := AggregatorFromEnv(getenv(map[string]string{EnvTableName: "limits"}))
	want := Aggregator{TableName: "limits", Windows: []string{"hourly", "daily"},
		SnapshotTTLDays: 90, MaxShards: 32, MergeAfter: 600, WriteConcurrency: 16,
		Thresholds: map[string][]int{"": {50, 80, 100}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("defaults: %+v, %v", got, err)
	}
	long := strings.Repeat("x", 64)
	got, err = AggregatorFromEnv(getenv(map[string]string{
		EnvTableName: " my.limits_1-x ", EnvSnapshotWindows: " monthly , hourly ", EnvSnapshotTTLDays: " 3650\n",
		EnvMaxShards: "1", EnvWriteConcurrency: "256", EnvMaxWriteUnits: "40000", EnvMergeAfterSeconds: "5",
		EnvDeadLetterBucketName: " dead-l-s ", EnvThresholds: " 90, budget=100 ,5,budget=1,x=7," + long + "=9",
		EnvAlertTargetARN: " arn:aws-cn:events:cn-north-1:123456789012:event-bus/a.b/c ",
	}))
	want = Aggregator{TableName: "my.limits_1-x", Windows: []string{"monthly", "hourly"},
		SnapshotTTLDays: 3650, MaxShards: 1, MergeAfter: 5, WriteConcurrency: 256, MaxWriteUnits: 40_000,
		Thresholds:           map[string][]int{"": {5, 90}, "budget": {1, 100}, "x": {7}, long: {9}},
		AlertTargetARN:       "arn:aws-cn:events:cn-north-1:123456789012:event-bus/a.b/c",
		DeadLetterBucketName: "dead-l-s"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("all set: %+v, %v", got, err)
	}
	const topic = "arn:aws-us-gov:sns:us-gov-west-1:123456789012:a_b-c"
	got, err = AggregatorFromEnv(getenv(map[string]string{EnvTableName: "limits", EnvAlertTargetARN: topic}))
	if err != nil || got.AlertTargetARN != topic {
		t.Errorf("a topic: %+v, %v", got, err)
	}
	bounds := map[string][]int{
		EnvSnapshotTTLDays: {1, 3650}, EnvMaxShards: {1, 1024}, EnvMergeAfterSeconds: {1, 86_400},
		EnvWriteConcurrency: {1, 256},
		EnvMaxWriteUnits:    {1, 40_000},
	}
	for i := range 2 { // the least of all, then the most
		env := map[string]string{EnvTableName: "limits"}
		for name, b := range bounds {
			env[name] = strconv.Itoa(b[i])
		}
		got, err := AggregatorFromEnv(getenv(env))
		want := Aggregator{TableName: "limits", Windows: []string{"hourly", "daily"},
			SnapshotTTLDays: bounds[EnvSnapshotTTLDays][i],
			MaxShards:       bounds[EnvMaxShards][i], MergeAfter: bounds[EnvMergeAfterSeconds][i],
			WriteConcurrency: bounds[EnvWriteConcurrency][i], MaxWriteUnits: bounds[EnvMaxWriteUnits][i],
			Thresholds: DefaultThresholds()}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at the bounds: %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestAggregatorFromEnvNamesEveryProblem(t *testing.T) {
	for name, values := range map[string][]string{
		EnvTableName:         {"", "ab", "a b c", "table/x", strings.Repeat("x", 256)},
		EnvSnapshotWindows:   {"weekly", "hourly,hourly", "hourly,", ",", "Hourly", "hourly;daily"},
		EnvSnapshotTTLDays:   {"0", "-1", "3651", "90.5", "ninety", "1e2"},
		EnvMaxShards:         {"0", "3", "2048", "-2", "x"},
		EnvMergeAfterSeconds: {"0", "86401", "10m"},
		EnvWriteConcurrency:  {"0", "257", "many"},
		EnvMaxWriteUnits:     {"0", "40001", "many"},
		EnvThresholds: {"0", "101", "-1", "+5", "050", "50,50", "50,", "half", "50%", "=50", "budget=", "9x=50", "_x=50",
			"a b=50",
			"budget=50,budget=50", "budget:50", strings.Repeat("x", 65) + "=50"},
		EnvAlertTargetARN: {"on-call", "arn:aws:sns:eu-west-1:123456789012:a.fifo", "arn:aws:sns:eu-west-1:123456789012:",
			"arn:aws:events:eu-west-1:123456789012:bus", "arn:aws:events:eu-west-1:123456789012:event-bus/",
			"urn:aws:sns:eu-west-1:123456789012:a",
			"arn:aws:sqs:eu-west-1:123456789012:a", "arn:aws:sns::123456789012:a", "arn:aws:sns:eu-west-1:12345678901x:a",
			"arn:aws:sns:eu-west-1:12345678901:a",
			"arn:aws-iso:sns:us-iso-east-1:123456789012:a", "arn:aws:sns:evil.example/:123456789012:a",
			"arn:aws:sns:eu-west-1:123456789012:a,arn:aws:events:eu-west-1:123456789012:event-bus/b"},
		EnvDeadLetterBucketName: {"No_Bucket", "a", "-ab", "ab.", "..a", "aBc", "a b", strings.Repeat("x", 64)},
	} {
		for _, v := range values {
			m := map[string]string{EnvTableName: "limits", name: v}
			c, err := AggregatorFromEnv(getenv(m))
			if err == nil || !reflect.DeepEqual(c, Aggregator{}) || !strings.HasPrefix(err.Error(), name+`="`+v+`": want `) {
				t.Errorf("%s=%q: %+v, %v", name, v, c, err)
			}
		}
	}
	_, err := AggregatorFromEnv(getenv(map[string]string{EnvTableName: "limits", EnvWriteConcurrency: "many"}))
	const want = `WRITE_CONCURRENCY="many": want a whole number from 1 to 256`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = AggregatorFromEnv(getenv(map[string]string{EnvTableName: "limits", EnvMaxShards: "3"}))
	if err == nil || err.Error() != `MAX_SHARDS="3": want a power of two from 1 to 1024` {
		t.Error(err)
	}
	_, err = AggregatorFromEnv(getenv(map[string]string{
		EnvSnapshotWindows: "x,y", EnvSnapshotTTLDays: "x", EnvMaxShards: "x", EnvWriteConcurrency: "x",
		EnvDeadLetterBucketName: "X", EnvMergeAfterSeconds: "x",
	}))
	for _, name := range []string{EnvTableName, EnvSnapshotWindows, EnvSnapshotTTLDays, EnvMaxShards, EnvWriteConcurrency,
		EnvDeadLetterBucketName, EnvMergeAfterSeconds} {
		if err == nil || strings.Count(err.Error(), name+"=") != 1 {
			t.Errorf("%s is not named once in: %v", name, err)
		}
	}
}
