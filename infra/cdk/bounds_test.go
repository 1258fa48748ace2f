package cdk_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// TestOptionsMatchTheAggregatorsBounds compares the bounds and defaults of the options with those
// that the function enforces.
func TestOptionsMatchTheAggregatorsBounds(t *testing.T) {
	var parsed function.Aggregator
	accepts := func(variable, value string) bool {
		var err error
		parsed, err = function.AggregatorFromEnv(func(name string) string {
			return map[string]string{function.EnvTableName: "table", variable: value}[name]
		})
		return err == nil
	}
	for _, o := range []struct {
		key, variable string
		parsed        *int
	}{
		{"snapshotTtlDays", function.EnvSnapshotTTLDays, &parsed.SnapshotTTLDays},
		{"maxShards", function.EnvMaxShards, &parsed.MaxShards},
		{"mergeAfterSeconds", function.EnvMergeAfterSeconds, &parsed.MergeAfter},
		{"writeConcurrency", function.EnvWriteConcurrency, &parsed.WriteConcurrency},
	} {
		for _, n := range []int{-1, 1, 2, 3, 256, 257, 1024, 2048, 3650, 3651, 86_400, 86_401} {
			_, err := option.Set(&cdk.Props{}, o.key, fmt.Sprint(n))
			if takes := accepts(o.variable, strconv.Itoa(n)); takes != (err == nil) {
				t.Errorf("%s %d: accepted by the function: %v, by the option: %v", o.key, n, takes, err)
			}
		}
		if !accepts(o.variable, "") {
			t.Fatalf("%s is not accepted when it is empty", o.variable)
		}
		for _, is := range option.Of(cdk.Props{}) {
			if is.Key == o.key && is.Default != strconv.Itoa(*o.parsed) {
				t.Errorf("%s: the default of the option is %s, that of the function %d", o.key, is.Default, *o.parsed)
			}
		}
	}
}
