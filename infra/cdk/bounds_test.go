package cdk_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/config"
)

// TestOptionsAreWhatTheAggregatorAccepts holds the bounds and defaults of the options
// to those that the function itself checks its environment by.
func TestOptionsAreWhatTheAggregatorAccepts(t *testing.T) {
	var parsed config.Aggregator
	accepts := func(variable, value string) bool {
		var err error
		parsed, err = config.AggregatorFromEnv(func(name string) string {
			return map[string]string{config.EnvTableName: "table", variable: value}[name]
		})
		return err == nil
	}
	for _, o := range []struct {
		key, variable string
		parsed        *int
	}{
		{"snapshotTtlDays", config.EnvSnapshotTTLDays, &parsed.SnapshotTTLDays},
		{"maxShards", config.EnvMaxShards, &parsed.MaxShards},
		{"mergeAfterSeconds", config.EnvMergeAfterSeconds, &parsed.MergeAfter},
		{"writeConcurrency", config.EnvWriteConcurrency, &parsed.WriteConcurrency},
	} {
		for _, n := range []int{-1, 1, 2, 3, 256, 257, 1024, 2048, 3650, 3651, 86_400, 86_401} {
			_, err := cdk.Set(&cdk.Props{}, o.key, fmt.Sprint(n))
			if function := accepts(o.variable, strconv.Itoa(n)); function != (err == nil) {
				t.Errorf("%s %d: the function accepts it: %v, the option: %v", o.key, n, function, err)
			}
		}
		if !accepts(o.variable, "") {
			t.Fatalf("%s is not accepted when it is empty", o.variable)
		}
		for _, option := range cdk.Options(cdk.Props{}) {
			if option.Key == o.key && option.Default != strconv.Itoa(*o.parsed) {
				t.Errorf("%s: the default of the option is %s, that of the function %d", o.key, option.Default, *o.parsed)
			}
		}
	}
}
