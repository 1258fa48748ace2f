package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// finding is a finding of the AwsSolutions rule pack that we live with.
type finding struct {
	rule, reason string
	applies      []any // what of it, as the rule pack names it; nil: all of it
}

// matching is an element of a finding's applies that is a regular expression.
func matching(expression string) any { return map[string]any{"regex": "/" + expression + "/"} }

// accept notes findings where the rule pack (cdk-nag) looks for them, so that
// any app that checks its stacks with it finds them accepted, with the reason.
func accept(c constructs.Construct, findings ...finding) {
	var list []any
	for _, f := range findings {
		entry := map[string]any{"id": f.rule, "reason": f.reason}
		if f.applies != nil {
			entry["applies_to"] = f.applies
		}
		list = append(list, entry)
	}
	c.Node().DefaultChild().(awscdk.CfnResource).AddMetadata(jsii.String("cdk_nag"),
		map[string]any{"rules_to_suppress": list})
}
