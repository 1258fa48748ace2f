package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// finding is a finding of a rule pack that we live with.
type finding struct {
	rule, reason string
	applies      []any // its parts, as the rule pack names them; nil: all of it
}

// matching is an element of a finding's applies that is a regular expression.
func matching(expression string) any { return map[string]any{"regex": "/" + expression + "/"} }

// complying are the rule packs of cdk-nag for NIST 800-53 r5, HIPAA and PCI DSS, which
// give the same rules names of their own.
var complying = []string{"NIST.800.53.R5-", "HIPAA.Security-", "PCI.DSS.321-"}

// everywhere is a finding of one rule in all the compliance packs.
func everywhere(rule, reason string) (out []finding) {
	for _, pack := range complying {
		out = append(out, finding{rule: pack + rule, reason: reason})
	}
	return out
}

// accept adds findings to the metadata that the rule packs (cdk-nag) read. An app that checks its
// stacks with them finds them accepted, with the reason. A finding that an option would fix is not
// accepted: an account that must comply should see it.
func accept(c constructs.Construct, findings ...finding) {
	resource := c.Node().DefaultChild().(awscdk.CfnResource)
	var list []any
	for _, f := range findings {
		entry := map[string]any{"id": f.rule, "reason": f.reason}
		if f.applies != nil {
			entry["applies_to"] = f.applies
		}
		list = append(list, entry)
	}
	resource.AddMetadata(jsii.String("cdk_nag"), map[string]any{"rules_to_suppress": list})
}
