package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// finding is an accepted finding of a rule pack.
type finding struct {
	rule, reason string
	applies      []any // its parts, in the rule pack's names; nil: all of it
}

// matching returns an element of a finding's applies that is a regular expression.
func matching(expression string) any { return map[string]any{"regex": "/" + expression + "/"} }

// complying are the rule packs of cdk-nag for NIST 800-53 r5, HIPAA and PCI DSS, which have
// different names for the same rules.
var complying = []string{"NIST.800.53.R5-", "HIPAA.Security-", "PCI.DSS.321-"}

// everywhere returns a finding of one rule in all compliance packs.
func everywhere(rule, reason string) (out []finding) {
	for _, pack := range complying {
		out = append(out, finding{rule: pack + rule, reason: reason})
	}
	return out
}

// accept adds findings to the metadata that the rule packs (cdk-nag) read. An app that checks its
// stacks with them finds them accepted, with the reason. If an option would fix a finding, it is
// not accepted: an account that must comply should see it.
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
