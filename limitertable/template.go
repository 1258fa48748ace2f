package limitertable

import (
	_ "embed"
	"encoding/json"
	"fmt"
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

// Terraform returns the main.tf of a module with the same in it, on demand: Terraform would
// set the capacity of indexes back that auto scaling has changed. Its variables are
// table_name, policy_name_prefix and deletion_protection; its outputs are
// table_name, table_arn, stream_arn and policy_arns, a map by the names of
// [Policy].
func Terraform() string { return terraform }

// Policy names one of the policies for applications. Each allows all that a
// program of its kind asks of DynamoDB, and no more.
type Policy string

// The policies. One of a namespace is for the namespace that the principal's tag
// zael_namespace_id names, so that one policy serves all; the tag has the id of a
// namespace, not its name.
const (
	PolicyAcquire          Policy = "acquire" // acquire, settle, give back, split and merge buckets
	PolicyAdmin            Policy = "admin"   // and change entities, limits and namespaces, and read everything
	PolicyRead             Policy = "read"    // read everything
	PolicyNamespaceAcquire Policy = "namespace-acquire"
	PolicyNamespaceAdmin   Policy = "namespace-admin"
	PolicyNamespaceRead    Policy = "namespace-read"
)

// Policies returns all policies, in a fixed order.
func Policies() []Policy {
	return []Policy{PolicyAcquire, PolicyAdmin, PolicyRead, PolicyNamespaceAcquire, PolicyNamespaceAdmin,
		PolicyNamespaceRead}
}

// tableARN stands for the table's ARN in policies.json.
const tableARN = "<table>"

// PolicyDocument returns the IAM policy, in JSON, for the table of an ARN. An
// unknown policy is an error, and an ARN that is not a table's. If the table is
// encrypted by a key of yours, principals need rights on that key too.
func PolicyDocument(p Policy, arn string) (string, error) {
	var all map[Policy]json.RawMessage
	if err := json.Unmarshal(policyDocuments, &all); err != nil {
		panic("bug: policies.json: " + err.Error())
	}
	document, ok := all[p]
	if !ok {
		return "", fmt.Errorf("policy %q: accepted are %v", p, Policies())
	}
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "dynamodb" || !strings.HasPrefix(parts[5], "table/") ||
		strings.ContainsAny(arn, "\"\\* ") || strings.Count(arn, "/") != 1 {
		return "", fmt.Errorf("table ARN %q: want one like arn:aws:dynamodb:us-east-1:123456789012:table/zae-limiter", arn)
	}
	return strings.ReplaceAll(string(document), tableARN, arn), nil
}
