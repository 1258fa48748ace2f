//go:build deploy

package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// user creates a user with a managed policy.
func (e *emulator) user(t *testing.T, name, policyARN string) identity {
	t.Helper()
	id := e.newUser(t, name)
	_, err := e.iam().AttachUserPolicy(t.Context(),
		&iam.AttachUserPolicyInput{UserName: aws.String(name), PolicyArn: aws.String(policyARN)})
	check.Must(t, err)
	return id
}

func (e *emulator) newUser(t *testing.T, name string) identity {
	t.Helper()
	check.Must(t, check.Err(e.iam().CreateUser(t.Context(), &iam.CreateUserInput{UserName: aws.String(name)})))
	out, err := e.iam().CreateAccessKey(t.Context(), &iam.CreateAccessKeyInput{UserName: aws.String(name)})
	check.Must(t, err)
	return identity{*out.AccessKey.AccessKeyId, *out.AccessKey.SecretAccessKey}
}

// document is a policy in IAM's form.
type document struct {
	Version   string
	Statement []map[string]any
}

func decode(t *testing.T, text string) (d document) {
	t.Helper()
	plain, err := url.QueryUnescape(text)
	if err == nil {
		err = json.Unmarshal([]byte(plain), &d)
	}
	check.Must(t, err, "policy %s", text)
	return d
}

// without returns the document without an action, in the statements on resources that contain part.
func (d document) without(action, part string) string {
	var left []map[string]any
	for _, s := range d.Statement {
		kept := slices.DeleteFunc(list(s["Action"]), func(a string) bool {
			return a == action && strings.Contains(fmt.Sprint(s["Resource"]), part)
		})
		if len(kept) == 0 {
			continue
		}
		changed := map[string]any{}
		for k, v := range s {
			changed[k] = v
		}
		changed["Action"] = kept
		left = append(left, changed)
	}
	text, err := json.Marshal(document{d.Version, left})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func list(v any) (out []string) {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	for _, e := range v.([]any) {
		out = append(out, e.(string))
	}
	return out
}

// applicationPolicies makes applications do what their policies are for. Package rights derives
// from recorded operations that they allow no more.
func (w *world) applicationPolicies(t *testing.T) {
	reader := w.user(t, "reader", w.outputs["ReadPolicyArn"])
	admin := w.user(t, "admin", w.outputs["AdminPolicyArn"])
	for what, err := range map[string]error{
		"the read policy, to read": w.readEverything(t, reader), "the admin policy, to read": w.readEverything(t, admin),
		"the admin policy, to remove": w.removeMany(t, admin),
	} {
		check.NoError(t, err, "%s: not sufficient", what)
	}
	if w.acquire(t.Context(), reader, "reader", 1) == nil {
		t.Error("the read policy allows to acquire")
	}
}

func (w *world) readEverything(t *testing.T, id identity) error {
	db := w.dynamodb(id)
	key := map[string]types.AttributeValue{"PK": text("_/SYSTEM#"), "SK": text("#VERSION")}
	if _, err := limitertable.Describe(t.Context(), db, tableName); err != nil {
		return err
	}
	if _, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(tableName), Key: key}); err != nil {
		return err
	}
	_, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		tableName: {Keys: []map[string]types.AttributeValue{key}},
	}})
	if err != nil {
		return err
	}
	for _, index := range []string{"", "GSI1", "GSI2", "GSI3", "GSI4"} {
		in := &dynamodb.QueryInput{
			TableName: aws.String(tableName), KeyConditionExpression: aws.String(index + "PK = :pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text("_")},
		}
		if index != "" {
			in.IndexName = aws.String(index)
		}
		if _, err := db.Query(t.Context(), in); err != nil {
			return fmt.Errorf("index %q: %w", index, err)
		}
	}
	return nil
}

func (w *world) removeMany(t *testing.T, id identity) error {
	_, err := w.dynamodb(id).BatchWriteItem(t.Context(),
		&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			tableName: {{DeleteRequest: &types.DeleteRequest{Key: map[string]types.AttributeValue{"PK": text("none"),
				"SK": text("none")}}}},
		}})
	return err
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// functionRoles removes one permission at a time from the functions, and invokes them with records
// that need it. The permissions for the stream, the log group and listing the bucket are Lambda's,
// and the emulator's Lambda does not need them; the template's tests have the exact list.
func (w *world) functionRoles(t *testing.T) {
	for _, c := range []struct {
		function, action, resource, event string
	}{
		{"Aggregator", "dynamodb:Query", "", "aggregator-acquire.json"},
		{"Aggregator", "dynamodb:UpdateItem", "", "aggregator-acquire.json"},
		{"Aggregator", "s3:PutObject", "malformed", "aggregator-malformed.json"},
		{"Archiver", "s3:PutObject", "audit", "archiver-expired.json"},
		{"Archiver", "s3:PutObject", "malformed", "archiver-malformed.json"},
	} {
		role, policy := w.role(t, c.function)
		event, err := os.ReadFile(filepath.Join(w.emulator.root, "events", c.event))
		check.Must(t, err)
		w.limit(t, role, policy.without(c.action, c.resource))
		if answer := w.invoke(t, c.function, event); !strings.Contains(answer, "itemIdentifier") {
			t.Errorf("%s: %s on %q is not needed for %s: %s", c.function, c.action, c.resource, c.event, answer)
		}
		w.limit(t, role, policy.without("", ""))
		check.Equal(t, w.invoke(t, c.function, event), `{"batchItemFailures":[]}`,
			"%s: its role is not sufficient for %s", c.function, c.event)
	}
	w.shardRights(t)
	w.catchUpRights(t)
	w.setupRights(t)
}

// setupRights invokes the setup function like CloudFormation, with one permission less at a time.
func (w *world) setupRights(t *testing.T) {
	name := w.function(t, "Setup")
	w.timeout(t, name, 10) // a refused call is repeated that long
	defer w.timeout(t, name, 240)
	for i, action := range []string{
		"", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem",
		"dynamodb:Query",
	} {
		role, policy := w.role(t, "Setup")
		w.limit(t, role, policy.without(action, ""))
		status := w.setup(t, name, fmt.Sprintf("trial-%d", i), oneLimit)
		w.limit(t, role, policy.without("", ""))
		check.Equal(t, status, map[bool]string{true: "SUCCESS", false: "FAILED"}[action == ""], "setup without %q",
			action)
	}
	ofResource := "resources: {api: {limits: {rpm: {capacity: 5}}}}"
	check.MustEqual(t, w.setup(t, name, "trial-deletes", ofResource), "SUCCESS", "setup of a resource's limits")
	role, policy := w.role(t, "Setup")
	for _, action := range []string{"dynamodb:DeleteItem", ""} {
		w.limit(t, role, policy.without(action, ""))
		status := w.setup(t, name, "trial-deletes", oneLimit)
		check.Equal(t, status, map[bool]string{true: "SUCCESS", false: "FAILED"}[action == ""],
			"setup that deletes limits, without %q", action)
	}
}

func (w *world) timeout(t *testing.T, function string, seconds int32) {
	t.Helper()
	_, err := w.lambda().UpdateFunctionConfiguration(t.Context(), &lambda.UpdateFunctionConfigurationInput{
		FunctionName: aws.String(function), Timeout: aws.Int32(seconds),
	})
	check.Must(t, err)
}

const oneLimit = "system: {limits: {rpm: {capacity: 10}}}"

// role returns the name of a function's role, and its policy.
func (w *world) role(t *testing.T, function string) (string, document) {
	t.Helper()
	fn, err := w.lambda().GetFunctionConfiguration(t.Context(),
		&lambda.GetFunctionConfigurationInput{FunctionName: aws.String(w.function(t, function))})
	check.Must(t, err)
	_, role, _ := strings.Cut(*fn.Role, ":role/")
	p, err := w.iam().GetRolePolicy(t.Context(),
		&iam.GetRolePolicyInput{RoleName: aws.String(role), PolicyName: aws.String("function")})
	check.Must(t, err)
	return role, decode(t, *p.PolicyDocument)
}

// function returns the physical name of a function.
func (w *world) function(t *testing.T, id string) string {
	t.Helper()
	out, err := w.lambda().ListFunctions(t.Context(), &lambda.ListFunctionsInput{})
	check.Must(t, err)
	for _, f := range out.Functions {
		if strings.HasPrefix(*f.FunctionName, stack+"-"+id) {
			return *f.FunctionName
		}
	}
	t.Fatalf("no function %s", id)
	return ""
}

func (w *world) limit(t *testing.T, role, policy string) {
	t.Helper()
	_, err := w.iam().PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{
		RoleName: aws.String(role), PolicyName: aws.String("function"), PolicyDocument: aws.String(policy),
	})
	check.Must(t, err)
}

func (w *world) invoke(t *testing.T, id string, event []byte) string {
	t.Helper()
	out, err := w.lambda().Invoke(t.Context(), &lambda.InvokeInput{
		FunctionName: aws.String(w.function(t, id)), Payload: event,
		InvocationType: lambdatypes.InvocationTypeRequestResponse,
	})
	check.Must(t, err)
	var plain bytes.Buffer
	check.Must(t, json.Compact(&plain, out.Payload), "answer %s", out.Payload)
	return plain.String()
}
