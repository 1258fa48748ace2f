//go:build deploy

package deploy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// shown has the tool say that both functions are fed. The emulator cannot say how
// they do: it answers CloudWatch in a form that the SDK does not read.
func (w *world) shown(t *testing.T) {
	status, _ := w.tool("status") // fails: the emulator's CloudFormation sets no time to live
	for _, name := range []string{"AggregatorFunctionName", "ArchiverFunctionName"} {
		if fed := regexp.MustCompile(`function +` + w.outputs[name] + ` +Enabled`); !fed.MatchString(status) {
			t.Errorf("function %s is not shown:\n%s", w.outputs[name], status)
		}
	}
}

// tableAlone deploys the template of package limitertable.
func (w *world) tableAlone(t *testing.T) {
	const name = "alone"
	_, err := w.cloudformation().CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: aws.String(name), TemplateBody: aws.String(limitertable.CloudFormation()),
		Capabilities: []types.Capability{types.CapabilityCapabilityIam},
		Parameters:   []types.Parameter{{ParameterKey: aws.String("TableName"), ParameterValue: aws.String(name)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stack is made", patience, func() error {
		out, err := w.cloudformation().DescribeStacks(t.Context(),
			&cloudformation.DescribeStacksInput{StackName: aws.String(name)})
		if err == nil && out.Stacks[0].StackStatus != types.StackStatusCreateComplete {
			err = fmt.Errorf("%s: %s", out.Stacks[0].StackStatus, aws.ToString(out.Stacks[0].StackStatusReason))
		}
		if err == nil && len(out.Stacks[0].Outputs) != 3+len(limitertable.Policies()) {
			err = fmt.Errorf("its outputs are %v", out.Stacks[0].Outputs)
		}
		return err
	})
	err = limitertable.Check(t.Context(), w.dynamodb(root), name)
	diff, ok := errors.AsType[*limitertable.DiffError](err)
	if !ok || len(diff.Diffs) != 1 || !strings.HasPrefix(diff.Diffs[0], "time to live: ") {
		t.Errorf("want the table but for the time to live, which the emulator does not set: %v", err)
	}
	l, err := limiter.Open(t.Context(), w.dynamodb(root), name, &limiter.Options{Register: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	request := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}}
	if _, err := l.Acquire(t.Context(), request); err != nil {
		t.Error(err)
	}
	if _, err := w.cloudformation().DeleteStack(t.Context(),
		&cloudformation.DeleteStackInput{StackName: aws.String(name)}); err != nil {
		t.Error(err)
	}
}
