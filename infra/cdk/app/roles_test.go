package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
)

// TestRolesAllowExactlyThis lists every right of every role. The object keys
// are the only wildcards, and no function reads more of the table than the
// registry of namespaces.
func TestRolesAllowExactlyThis(t *testing.T) {
	stream := []string{
		"dynamodb:DescribeStream Table.StreamArn",
		"dynamodb:GetRecords Table.StreamArn",
		"dynamodb:GetShardIterator Table.StreamArn",
		"dynamodb:ListStreams Table.StreamArn",
		"s3:ListBucket FailedRecordsBucket.Arn",
		"s3:PutObject FailedRecordsBucket.Arn/aws/lambda/*",
	}
	for _, c := range []struct {
		name   string
		common []string
		own    []string
	}{
		{"Setup", nil, []string{
			"dynamodb:BatchGetItem Table.Arn",
			"dynamodb:DescribeTable Table.Arn",
			"dynamodb:DescribeTimeToLive Table.Arn",
			"dynamodb:PutItem Table.Arn",
			"dynamodb:UpdateItem Table.Arn",
			"logs:CreateLogStream SetupLogs.Arn",
			"logs:PutLogEvents SetupLogs.Arn",
		}},
		{"Aggregator", stream, []string{
			"dynamodb:BatchGetItem Table.Arn",
			"dynamodb:ConditionCheckItem Table.Arn",
			"dynamodb:DeleteItem Table.Arn",
			"dynamodb:PutItem Table.Arn",
			"dynamodb:Query Table.Arn",
			"dynamodb:UpdateItem Table.Arn",
			"logs:CreateLogStream AggregatorLogs.Arn",
			"logs:PutLogEvents AggregatorLogs.Arn",
			"s3:PutObject FailedRecordsBucket.Arn/malformed/*",
		}},
		{"Archiver", stream, []string{
			"logs:CreateLogStream ArchiverLogs.Arn",
			"logs:PutLogEvents ArchiverLogs.Arn",
			"s3:PutObject ArchiveBucket.Arn/audit/*",
			"s3:PutObject ArchiveBucket.Arn/malformed/*",
		}},
	} {
		role := golden.one(t, "AWS::IAM::Role", c.name).Properties
		if role["ManagedPolicyArns"] != nil {
			t.Errorf("%s: managed policies %v", c.name, role["ManagedPolicyArns"])
		}
		want := append(slices.Clone(c.common), c.own...)
		sort.Strings(want)
		if got := rights(t, role); !slices.Equal(got, want) {
			t.Errorf("%s may\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if roles, policies := len(golden.ofType("AWS::IAM::Role")), len(golden.ofType("AWS::IAM::Policy")); roles != 3 ||
		policies != 0 {
		t.Errorf("%d roles and %d policies, want 3 and 0: another role got rights", roles, policies)
	}
}

// rights returns one line per action and resource, in order.
func rights(t *testing.T, role map[string]any) []string {
	t.Helper()
	var lines []string
	for _, policy := range role["Policies"].([]any) {
		for _, s := range dig(policy, "PolicyDocument", "Statement").([]any) {
			if dig(s, "Effect") != "Allow" || dig(s, "NotAction") != nil || dig(s, "NotResource") != nil {
				t.Errorf("unexpected statement %s", text(t, s))
			}
			for _, action := range list(dig(s, "Action")) {
				for _, resource := range list(dig(s, "Resource")) {
					lines = append(lines, action.(string)+" "+arn(t, resource))
				}
			}
		}
	}
	sort.Strings(lines)
	return lines
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// arn renders a resource as <logical id>.<attribute><suffix>, without the hash
// that CDK puts at the end of a logical id.
func arn(t *testing.T, v any) string {
	t.Helper()
	if join, ok := dig(v, "Fn::Join").([]any); ok {
		var b strings.Builder
		for _, part := range join[1].([]any) {
			if s, ok := part.(string); ok {
				b.WriteString(s)
			} else {
				b.WriteString(arn(t, part))
			}
		}
		return b.String()
	}
	pair, ok := dig(v, "Fn::GetAtt").([]any)
	if !ok {
		t.Fatalf("resource %s is not an attribute of this stack", text(t, v))
	}
	id := pair[0].(string)
	if strings.Contains(id, "Logs") {
		id = id[:strings.Index(id, "Logs")+len("Logs")]
	}
	return id + "." + pair[1].(string)
}

// TestSetupSeesSystemRecordsOnly: the rights of the setup function are bound to
// the partition keys of the registry and of system configurations.
func TestSetupSeesSystemRecordsOnly(t *testing.T) {
	role := golden.one(t, "AWS::IAM::Role", "Setup").Properties
	for _, policy := range role["Policies"].([]any) {
		for _, s := range dig(policy, "PolicyDocument", "Statement").([]any) {
			first := list(dig(s, "Action"))[0].(string)
			if !strings.HasPrefix(first, "dynamodb:") || first == "dynamodb:DescribeTable" {
				continue
			}
			const want = `{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["*/SYSTEM#"]}}`
			if got := text(t, dig(s, "Condition")); got != want {
				t.Errorf("condition %s", got)
			}
		}
	}
}

// TestSetupWithManifestsMayAdminister lists what it may do beyond its logs when the
// stack declares limits.
func TestSetupWithManifestsMayAdminister(t *testing.T) {
	var want []string
	const table = "arn:aws:dynamodb:eu-west-1:" + account + ":table/zae-limiter"
	for _, action := range []string{"BatchGetItem", "ConditionCheckItem", "DeleteItem", "DescribeTable",
		"DescribeTimeToLive", "PutItem", "UpdateItem"} {
		want = append(want, "dynamodb:"+action+" "+table)
	}
	for _, index := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} { // what functions/setup queries
		want = append(want, "dynamodb:Query "+table+"/index/"+index)
	}
	var got []string
	role := bare.one(t, "AWS::IAM::Role", "Setup").Properties
	for _, policy := range role["Policies"].([]any) {
		for _, s := range dig(policy, "PolicyDocument", "Statement").([]any) {
			for _, action := range list(dig(s, "Action")) {
				for _, resource := range list(dig(s, "Resource")) {
					if text, ok := resource.(string); ok && dig(s, "Condition") == nil {
						got = append(got, action.(string)+" "+text)
					}
				}
			}
		}
	}
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		t.Errorf("it may\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAnotherStreamIsLookedAt: setup is invoked again when the stream that the functions read
// is another one, and is told which.
func TestAnotherStreamIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		in   template
		want any
	}{{golden, attribute("Table", "StreamArn")}, {bare, bareContext["zae-limiter:existingStreamArn"]}} {
		setup := c.in.one(t, "Custom::ZaeLimiterSetup", "Namespaces").Properties
		mapping := c.in.one(t, "AWS::Lambda::EventSourceMapping", "Aggregator").Properties
		if got := text(t, setup["StreamArn"]); got != text(t, c.want) || got != text(t, mapping["EventSourceArn"]) {
			t.Errorf("setup looks at the stream %s, want %s", got, text(t, c.want))
		}
	}
}

// One request asks for limits of the namespace and for the record that says that it is
// active, and IAM holds all keys of a request against one statement.
func TestOneStatementHasAllThatIsReadAtOnce(t *testing.T) {
	const tag = "${aws:PrincipalTag/zael_namespace_id}"
	for _, c := range []struct{ policy, action string }{
		{"NamespaceAcquirePolicy", "dynamodb:BatchGetItem"}, {"NamespaceReadPolicy", "dynamodb:BatchGetItem"},
		{"NamespaceAdminPolicy", "dynamodb:BatchGetItem"}, {"NamespaceAdminPolicy", "dynamodb:ConditionCheckItem"},
	} {
		found, limits := false, []string{tag + "/*"}
		if c.policy == "NamespaceAcquirePolicy" {
			limits = []string{tag + "/ENTITY#*", tag + "/RESOURCE#*", tag + "/SYSTEM#"}
		}
		for _, s := range dig(golden.one(t, "AWS::IAM::ManagedPolicy", c.policy).Properties, "PolicyDocument",
			"Statement").([]any) {
			keys := list(dig(s, "Condition", "ForAllValues:StringLike", "dynamodb:LeadingKeys"))
			all := !slices.ContainsFunc(limits, func(l string) bool { return !slices.Contains(keys, any(l)) })
			found = found || slices.Contains(list(dig(s, "Action")), any(c.action)) && all &&
				slices.Contains(keys, any("_/SYSTEM#"))
		}
		if !found {
			t.Errorf("%s: no statement has %s of the namespace and of the table's own records", c.policy, c.action)
		}
	}
}

// With a target, the aggregator may send to it, and to nothing else; nobody else may send, and without one
// nobody may send.
func TestAlertsAreOneRight(t *testing.T) {
	for name, c := range map[string]struct {
		in    template
		right any
	}{
		"without": {golden, nil},
		"a bus":   {changed, "events:PutEvents " + changedContext["zae-limiter:alertTargetArn"].(string)},
		"a topic": {provisioned, "sns:Publish " + provisionedContext["zae-limiter:alertTargetArn"].(string)},
	} {
		var got []any
		for id, r := range c.in.ofType("AWS::IAM::Role") {
			for _, policy := range r.Properties["Policies"].([]any) {
				for _, s := range dig(policy, "PolicyDocument", "Statement").([]any) {
					for _, action := range list(dig(s, "Action")) {
						if a := action.(string); strings.HasPrefix(a, "events:") || strings.HasPrefix(a, "sns:") {
							got = append(got, fmt.Sprint(a, " ", dig(s, "Resource")))
							if !strings.HasPrefix(id, "Aggregator") || dig(s, "Condition") != nil {
								t.Errorf("%s: %s may %s", name, id, text(t, s))
							}
						}
					}
				}
			}
		}
		if c.right == nil && len(got) > 0 || c.right != nil && !slices.Equal(got, []any{c.right}) {
			t.Errorf("%s: %v, want %v", name, got, c.right)
		}
	}
}
