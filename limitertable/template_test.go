package limitertable

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// object is anything in JSON.
type object = map[string]any

// golden is the template that the stack is deployed from.
func golden(t *testing.T) map[string]object {
	t.Helper()
	return template(t, "../infra/cdk/app/template.golden.json")
}

// template returns the resources of a template.
func template(t *testing.T, file string) map[string]object {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	var template struct{ Resources map[string]object }
	check.Must(t, json.Unmarshal(text, &template))
	return template.Resources
}

// policyName turns the logical id of a managed policy into the name of the policy.
var policyID = regexp.MustCompile(`^((?:Namespace)?)(Acquire|Admin|Read)Policy[0-9A-F]{8}$`)

// managed returns the managed policies of the template by their names.
func managed(t *testing.T) map[string]object {
	t.Helper()
	out := map[string]object{}
	for id, r := range golden(t) {
		if r["Type"] != "AWS::IAM::ManagedPolicy" {
			continue
		}
		m := policyID.FindStringSubmatch(id)
		if m == nil {
			t.Fatalf("managed policy %s of the template has no name here", id)
		}
		name := strings.ToLower(m[2])
		if m[1] != "" {
			name = "namespace-" + name
		}
		out[name] = r["Properties"].(object)
	}
	if got := slices.Sorted(maps.Keys(out)); !slices.Equal(got, slices.Sorted(slices.Values(policyNames))) {
		t.Fatalf("the template has the policies %v", got)
	}
	return out
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	check.Must(t, e.Encode(v))
	return []byte(b.String())
}

func ref(name string) object            { return object{"Ref": name} }
func attribute(of, name string) object  { return object{"Fn::GetAtt": []any{of, name}} }
func output(about string, v any) object { return object{"Description": about, "Value": v} }

// units is a parameter for units of capacity.
func units(otherwise int, about string) object {
	return object{"Type": "Number", "Default": otherwise, "MinValue": 1, "MaxValue": maxCapacity, "Description": about}
}

const provisionedCondition = "Provisioned"

// scaled gives the table and its indexes provisioned capacity, if the parameters want it,
// and adds what scales it: that of the stack, with parameters in place of numbers.
func scaled(t *testing.T, table, resources object) {
	t.Helper()
	capacity := object{"Fn::If": []any{provisionedCondition,
		object{"ReadCapacityUnits": ref("MinReadUnits"), "WriteCapacityUnits": ref("MinWriteUnits")}, ref("AWS::NoValue")}}
	table["BillingMode"], table["ProvisionedThroughput"] = ref("BillingMode"), capacity
	for _, i := range table["GlobalSecondaryIndexes"].([]any) {
		i.(object)["ProvisionedThroughput"] = capacity
	}
	for id, r := range template(t, "../infra/cdk/app/testdata/provisioned.golden.json") {
		m := regexp.MustCompile(`^Table(.*)(Read|Write)ScalingTarget(Tracking)?[0-9A-F]{8}$`).FindStringSubmatch(id)
		if m == nil {
			continue
		}
		of := m[1]
		if of == "" {
			of = "Table"
		}
		properties, name := r["Properties"].(object), of+m[2]+"Capacity"
		if m[3] == "" {
			properties["MinCapacity"], properties["MaxCapacity"] = ref("Min"+m[2]+"Units"), ref("Max"+m[2]+"Units")
		} else {
			properties["ScalingTargetId"], properties["PolicyName"] = ref(name), of+m[2]+"Utilization"
			properties["TargetTrackingScalingPolicyConfiguration"].(object)["TargetValue"] = ref("TargetUtilizationPercent")
			name = of + m[2] + "Scaling"
		}
		resources[name] = object{"Type": r["Type"], "Condition": provisionedCondition, "Properties": properties}
	}
}

// The CloudFormation template has the table and the policies of the stack, as
// they are, and nothing else of it.
func TestCloudFormationIsOfTheTemplate(t *testing.T) {
	table := golden(t)["Table"]
	delete(table, "Metadata") // for rule packs over the stack
	table["Properties"].(object)["TableName"] = ref("TableName")
	resources := object{"Table": table}
	scaled(t, table["Properties"].(object), resources)
	outputs := object{
		"TableName": output("Name of the table.", ref("Table")),
		"TableArn":  output("ARN of the table.", attribute("Table", "Arn")),
		"StreamArn": output("ARN of the table's stream.", attribute("Table", "StreamArn")),
	}
	for name, properties := range managed(t) {
		id := ""
		for part := range strings.SplitSeq(name, "-") {
			id += strings.ToUpper(part[:1]) + part[1:]
		}
		id += "Policy"
		resources[id] = object{"Type": "AWS::IAM::ManagedPolicy", "Properties": properties}
		outputs[id+"Arn"] = output("ARN of the managed policy "+name+".", ref(id))
	}
	check.Golden(t, "cloudformation.json", string(indented(t, object{
		"AWSTemplateFormatVersion": "2010-09-09",
		"Description":              "The table of zae-limiter-go, and policies for applications.",
		"Parameters": object{
			"TableName": object{
				"Type": "String", "Default": "zae-limiter", "AllowedPattern": "[a-zA-Z0-9_.-]{3,255}",
				"Description": "Name of the table.",
			},
			"BillingMode": object{
				"Type": "String", "Default": "PAY_PER_REQUEST", "AllowedValues": []string{"PAY_PER_REQUEST", "PROVISIONED"},
				"Description": "PROVISIONED capacity is scaled between the least and the most units.",
			},
			"MinReadUnits":  units(5, "Read units provisioned at least, and at first."),
			"MaxReadUnits":  units(1000, "Read units provisioned at most."),
			"MinWriteUnits": units(5, "Write units provisioned at least, and at first."),
			"MaxWriteUnits": units(1000, "Write units provisioned at most."),
			"TargetUtilizationPercent": object{"Type": "Number", "Default": 70, "MinValue": 20, "MaxValue": 90,
				"Description": "Part of the provisioned capacity that auto scaling keeps in use."},
		},
		"Conditions": object{provisionedCondition: object{"Fn::Equals": []any{ref("BillingMode"), "PROVISIONED"}}},
		"Resources":  resources, "Outputs": outputs,
	})), *update)
}

// arns writes the table's ARN, and those of its indexes, as text.
func arns(t *testing.T, v any, table string) any {
	t.Helper()
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = arns(t, v[i], table)
		}
		return out
	case object:
		if get, ok := v["Fn::GetAtt"].([]any); ok && len(v) == 1 && get[0] == "Table" && get[1] == "Arn" {
			return table
		}
		if join, ok := v["Fn::Join"].([]any); ok && len(v) == 1 && join[0] == "" {
			text := ""
			for _, part := range arns(t, join[1], table).([]any) {
				text += part.(string)
			}
			return text
		}
		out := object{}
		for key, value := range v {
			if strings.HasPrefix(key, "Fn::") || key == "Ref" {
				t.Fatalf("%v is not understood", v)
			}
			out[key] = arns(t, value, table)
		}
		return out
	}
	return v
}

func TestPolicyDocumentsEqualTheTemplate(t *testing.T) {
	documents := map[string]any{}
	for name, properties := range managed(t) {
		documents[name] = arns(t, properties["PolicyDocument"], tableARN)
	}
	check.Golden(t, "policies.json", string(indented(t, documents)), *update)
}

// The Terraform module has the table and the policies of the stack.
func TestTerraformIsOfTheTemplate(t *testing.T) {
	var b strings.Builder
	b.WriteString(terraformHead)
	var spec, pitr object
	spec = golden(t)["Table"]["Properties"].(object)
	pitr = spec["PointInTimeRecoverySpecification"].(object)
	s := Deployed()
	fmt.Fprintf(&b, "resource \"aws_dynamodb_table\" \"limiter\" {\n  name         = var.table_name\n"+
		"  billing_mode = %q\n  hash_key     = %q\n  range_key    = %q\n\n  stream_enabled              = %v\n"+
		"  stream_view_type            = %q\n  deletion_protection_enabled = var.deletion_protection\n", s.BillingMode,
		*s.KeySchema[0].AttributeName, *s.KeySchema[1].AttributeName, s.StreamViewType != "", s.StreamViewType)
	for _, a := range s.Attributes {
		fmt.Fprintf(&b, "\n  attribute {\n    name = %q\n    type = %q\n  }\n", *a.AttributeName, a.AttributeType)
	}
	for _, g := range s.GlobalIndexes {
		if len(g.Projection.NonKeyAttributes) > 0 || len(g.KeySchema) != 2 {
			t.Fatalf("index %s is not understood", *g.IndexName)
		}
		fmt.Fprintf(&b, "\n  global_secondary_index {\n    name            = %q\n    hash_key        = %q\n"+
			"    range_key       = %q\n    projection_type = %q\n  }\n", *g.IndexName, *g.KeySchema[0].AttributeName,
			*g.KeySchema[1].AttributeName, g.Projection.ProjectionType)
	}
	fmt.Fprintf(&b, "\n  ttl {\n    attribute_name = %q\n    enabled        = true\n  }\n\n"+
		"  point_in_time_recovery {\n    enabled = %v\n  }\n\n  lifecycle {\n    prevent_destroy = true\n  }\n}\n",
		s.TTLAttribute,
		pitr["PointInTimeRecoveryEnabled"])
	b.WriteString("\nlocals {\n  policies = {\n")
	policies := managed(t)
	for _, name := range policyNames {
		document := arns(t, policies[name]["PolicyDocument"], tableARN)
		text := strings.ReplaceAll(string(indented(t, document)), "${", "$${") // IAM's variables are not Terraform's
		text = strings.ReplaceAll(text, `": `, `" : `)                         // as terraform fmt wants it
		text = strings.ReplaceAll(text, tableARN, "${aws_dynamodb_table.limiter.arn}")
		text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      ")
		fmt.Fprintf(&b, "    %q = {\n      description = %q\n      document = %s\n    }\n", name,
			policies[name]["Description"], text)
	}
	b.WriteString("  }\n}\n" + terraformTail)
	check.Golden(t, "terraform/main.tf", b.String(), *update)
}

const terraformHead = `# Made from the synthesized template of the stack: go test ./limitertable -update.

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "table_name" {
  description = "Name of the table."
  type        = string
  default     = "zae-limiter"
}

variable "policy_name_prefix" {
  description = "The policies are named this and acquire, admin, ...; by default the table's name and a hyphen."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "DynamoDB refuses to delete the table."
  type        = bool
  default     = false
}

`

const terraformTail = `
resource "aws_iam_policy" "limiter" {
  for_each    = local.policies
  name        = "${coalesce(var.policy_name_prefix, "${var.table_name}-")}${each.key}"
  description = each.value.description
  policy      = jsonencode(each.value.document)
}

output "table_name" {
  value = aws_dynamodb_table.limiter.name
}

output "table_arn" {
  value = aws_dynamodb_table.limiter.arn
}

output "stream_arn" {
  value = aws_dynamodb_table.limiter.stream_arn
}

output "policy_arns" {
  value = { for name, policy in aws_iam_policy.limiter : name => policy.arn }
}
`

// policyNames are the names of all policies, in the order in which a page tells of them.
var policyNames = []string{"acquire", "admin", "read", "namespace-acquire", "namespace-admin", "namespace-read"}

func TestPolicies(t *testing.T) {
	const arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/limits"
	all, err := Policies(arn)
	if err != nil || len(all) != len(policyNames) {
		t.Fatalf("%d policies, %v", len(all), err)
	}
	for _, name := range policyNames {
		var document struct {
			Version   string
			Statement []struct{ Resource any }
		}
		if err := json.Unmarshal([]byte(all[name]), &document); err != nil || document.Version != "2012-10-17" {
			t.Fatalf("%s: %v\n%s", name, err, all[name])
		}
		for _, s := range document.Statement {
			if resources := fmt.Sprint(s.Resource); !strings.Contains(resources, arn) || strings.Contains(resources, "<") {
				t.Errorf("%s is about %s", name, resources)
			}
		}
	}
	for _, bad := range []string{"", "limits", "arn:aws:s3:::limits", arn + "/index/*", arn + "*", "*", arn + `"`, arn + ":x",
		arn + "?", arn + "\n", arn + "${aws:userid}", strings.TrimSuffix(arn, "limits"), arn + "/x",
		strings.Replace(arn, "arn", "urn", 1), strings.Replace(arn, "dynamodb", "s3", 1),
		strings.Replace(arn, "table/", "global-table/", 1)} {
		all, err := Policies(bad)
		said := fmt.Sprintf("table ARN %q: want one like arn:aws:dynamodb:", bad)
		if err == nil || !strings.HasPrefix(err.Error(), said) {
			t.Errorf("%q is accepted: %s, %v", bad, all, err)
		}
	}
}
