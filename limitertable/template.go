package limitertable

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// What follows is made from the synthesized template of the stack; tests hold it
// to that.
var (
	//go:embed cloudformation.json
	cloudFormation string

	//go:embed terraform/main.tf
	terraform string

	//go:embed policies.json
	policyDocuments []byte
)

// CloudFormation returns a template, in JSON, of the table that the stack deploys, with
// point-in-time recovery, and of the managed policies for applications. Its parameters are
// TableName and BillingMode. Capacity that is provisioned and scaled also has MinReadUnits,
// MaxReadUnits, MinWriteUnits, MaxWriteUnits and TargetUtilizationPercent. Its outputs are the
// name, ARN and stream ARN of the table and the ARN of each policy. It has no functions: see
// [Spec.Create] for what that means.
func CloudFormation() string { return cloudFormation }

// Terraform returns the main.tf of a module with the same table and policies, on demand: with
// provisioned capacity, Terraform would undo the changes that auto scaling makes to indexes. Its
// variables are table_name, policy_name_prefix and deletion_protection; its outputs are table_name,
// table_arn, stream_arn and policy_arns, a map by the names of [Policies].
func Terraform() string { return terraform }

// tableARN stands for the table's ARN in policies.json.
const tableARN = "<table>"

// isTableARN matches the ARN of one table, without wildcards and variables of policies.
var isTableARN = regexp.MustCompile(`^arn:[a-z-]+:dynamodb:[a-z0-9-]*:\d*:table/[\w.-]+$`)

// Policies returns the IAM policies of applications, in JSON by their names, for the table with an
// ARN. Each allows exactly the DynamoDB calls that a program of its kind makes:
//
//	acquire  to acquire, settle, give back, split and merge buckets
//	admin    also to change entities, limits and namespaces, and to read everything
//	read     to read limits, buckets, usage and audit events
//
// and namespace-acquire, namespace-admin and namespace-read allow the same in the namespace that
// the principal's tag zael_namespace_id names, so that one policy serves all; the tag has the id of
// a namespace, not its name.
//
// An ARN of anything but a table is an error. If the table is encrypted by a key of yours,
// principals need rights on that key too.
func Policies(arn string) (map[string]string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(policyDocuments, &all); err != nil {
		panic("bug: policies.json: " + err.Error())
	}
	if !isTableARN.MatchString(arn) {
		return nil, fmt.Errorf("table ARN %q: want one like arn:aws:dynamodb:us-east-1:123456789012:table/zae-limiter", arn)
	}
	out := make(map[string]string, len(all))
	for name, document := range all {
		out[name] = strings.ReplaceAll(string(document), tableARN, arn)
	}
	return out, nil
}
