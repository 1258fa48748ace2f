//go:build deploy

package deploy

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// unscaled returns the template without Application Auto Scaling, which the emulator lacks, and
// with the numbers inserted, because the emulator would read them as texts.
func unscaled(t *testing.T) string {
	t.Helper()
	var doc map[string]any
	check.Must(t, json.Unmarshal([]byte(limitertable.CloudFormation()), &doc))
	all := doc["Resources"].(map[string]any)
	for id, r := range all {
		if kind := r.(map[string]any)["Type"].(string); strings.HasPrefix(kind, "AWS::ApplicationAutoScaling::") {
			delete(all, id)
		}
	}
	text, err := json.Marshal(doc)
	check.Must(t, err)
	return strings.NewReplacer(`{"Ref":"MinReadUnits"}`, "5", `{"Ref":"MinWriteUnits"}`, "7").Replace(string(text))
}

// protect runs the command that make deploy runs before and after a deployment.
func (e *emulator) protect(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "./app/protect"}, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(e.root, "infra", "cdk"), e.env
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// policy returns the stack policy from the API.
func (e *emulator) policy(t *testing.T, stack string) string {
	t.Helper()
	out, err := e.cloudformation().GetStackPolicy(t.Context(),
		&cloudformation.GetStackPolicyInput{StackName: aws.String(stack)})
	check.Must(t, err)
	return aws.ToString(out.StackPolicyBody)
}

// protected checks that the stack policy is set on the named stack, which knows its table. It is
// relaxed for one deployment, and complete again afterwards. A missing stack is ignored before a
// deployment, and an error after it.
func (e *emulator) protected(t *testing.T, stack string) {
	t.Helper()
	chosen := []string{"-c", "zae-limiter:stackName=" + stack, "-c", "zae-limiter:mayLose=Table"}
	for _, c := range []struct {
		first string
		lost  bool
	}{{"--", true}, {"-after", false}} {
		if said, err := e.protect(t, append([]string{c.first}, chosen...)...); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		policy := e.policy(t, stack)
		kept := strings.Contains(policy, `"Deny"`) && strings.Contains(policy, `"Resource":["LogicalResourceId/Table"]`)
		if kept == c.lost || strings.Contains(policy, "Bucket") {
			t.Errorf("%s: the stack policy is %s", c.first, policy)
		}
	}
	if said, err := e.protect(t, "--", "-c", "zae-limiter:stackName=none"); err != nil {
		t.Errorf("no stack yet: %v: %s", err, said)
	}
	if said, err := e.protect(t, "-after", "--", "-c", "zae-limiter:stackName=none"); err == nil {
		t.Errorf("no stack after a deployment: %s", said)
	}
}

// TestTableChangesItsMode: the template of the table alone creates a working table. It becomes
// provisioned, and on demand again, in place and with its data. A stack policy protects it.
func TestTableChangesItsMode(t *testing.T) {
	const name = "modes"
	e := startEmulator(t)
	w := &world{emulator: e, stack: name}
	parameters := func(mode string) []cfn.Parameter {
		return []cfn.Parameter{
			{ParameterKey: aws.String("TableName"), ParameterValue: aws.String(name)},
			{ParameterKey: aws.String("BillingMode"), ParameterValue: aws.String(mode)},
		}
	}
	capabilities := []cfn.Capability{cfn.CapabilityCapabilityIam}
	_, err := e.cloudformation().CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: aws.String(name), TemplateBody: aws.String(unscaled(t)), Capabilities: capabilities,
		Parameters: parameters("PAY_PER_REQUEST"),
	})
	check.Must(t, err)
	w.settled(t, cfn.StackStatusCreateComplete)
	if w.read(t); len(w.outputs) != 3+6 { // of the table, and of six policies
		t.Errorf("its outputs are %v", w.outputs)
	}
	err = limitertable.Check(t.Context(), e.dynamodb(root), name)
	if diff, ok := errors.AsType[*limitertable.DiffError](err); !ok || len(diff.Diffs) != 1 ||
		!strings.HasPrefix(diff.Diffs[0], "time to live: ") {
		t.Errorf("want the table but for the time to live, which the emulator does not set: %v", err)
	}
	e.protected(t, name)
	made := w.describe(t, name)
	request := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpd": 1},
		Limits: []limiter.Limit{limiter.PerDay("rpd", 3)}}
	for i, mode := range []types.BillingMode{types.BillingModePayPerRequest, types.BillingModeProvisioned,
		types.BillingModePayPerRequest} {
		if i > 0 {
			check.Must(t, check.Err(e.cloudformation().UpdateStack(t.Context(), &cloudformation.UpdateStackInput{
				StackName: aws.String(name), UsePreviousTemplate: aws.Bool(true), Capabilities: capabilities,
				Parameters: parameters(string(mode)),
			})))
			w.settled(t, cfn.StackStatusUpdateComplete)
		}
		is, err := limitertable.Describe(t.Context(), e.dynamodb(root), name)
		if err != nil || is.Spec.BillingMode != mode || is.ARN != aws.ToString(made.TableArn) {
			t.Fatalf("want %s: %+v, %v", mode, is, err)
		}
		check.Equal(t, is.Spec.Capacity.WriteUnits == 7, mode == types.BillingModeProvisioned,
			"%s: capacity %+v", mode, is.Spec.Capacity)
		// Another process each time: three of the stored tokens are granted, then none.
		l, err := limiter.Open(t.Context(), e.dynamodb(root), name,
			&limiter.Options{Register: i == 0, Timeout: time.Minute})
		check.Must(t, err)
		check.NoError(t, check.Err(l.Acquire(t.Context(), request)), "%s", mode)
		if i < 2 {
			continue
		}
		check.Is(t, check.Err(l.Acquire(t.Context(), request)), limiter.ErrLimited, "a fourth of three is not denied")
	}
}
