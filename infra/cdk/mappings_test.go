package cdk_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Usage is folded over batches only if a stream shard has one batch at a time. With several, the
// state that a fold carries on is undefined.
func TestParallelBatchesAreNotFolded(t *testing.T) {
	for want, p := range map[string]cdk.AggregatorProps{
		`"TumblingWindowInSeconds":60}`:  {},
		`"TumblingWindowInSeconds":120}`: {FoldSeconds: 120, Parallelization: 1},
		`"TumblingWindowInSeconds":0}`:   {FoldSeconds: 120, Parallelization: 2},
	} {
		s := newStacks(t)
		s.props.Aggregator, s.props.Archiver.Off = p, true
		cdk.New(s.limits, "Limits", &s.props)
		check.Must(t, s.synth())
		if text := s.template(t, "Limits")["AWS::Lambda::EventSourceMapping"]; !strings.Contains(text, want) {
			t.Errorf("%+v: %s", p, text)
		}
	}
}
