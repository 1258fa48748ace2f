package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// cloud answers as STS and CloudFormation do: of one account, with one stack in a status and its
// template, and as DynamoDB without a table.
func cloud(t *testing.T, account, status string, deployed []byte) {
	t.Helper()
	cloudWithTable(t, account, status, deployed, "", "")
}

// cloudWithTable has a table too, as DynamoDB describes it, with its tags, in JSON.
func cloudWithTable(t *testing.T, account, status string, deployed []byte, table, tags string) {
	t.Helper()
	dynamodb := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		switch action := r.Form.Get("Action"); {
		case action == "GetCallerIdentity":
			fmt.Fprintf(w, "<R><GetCallerIdentityResult><Account>%s</Account></GetCallerIdentityResult></R>", account)
		case action == "DescribeStacks" && status == "":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "<E><Error><Code>ValidationError</Code><Message>does not exist</Message></Error></E>")
		case action == "DescribeStacks":
			fmt.Fprintf(w, "<R><DescribeStacksResult><Stacks><member><StackStatus>%s</StackStatus></member></Stacks>"+
				"</DescribeStacksResult></R>", status)
		case action == "GetTemplate" && deployed == nil:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>")
		case action == "GetTemplate":
			body := strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(string(deployed))
			fmt.Fprintf(w, "<R><GetTemplateResult><TemplateBody>%s</TemplateBody></GetTemplateResult></R>", body)
		case r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.DescribeTable" && table == "":
			dynamodb(w, http.StatusBadRequest,
				`{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"none"}`)
		case r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.DescribeTable":
			dynamodb(w, http.StatusOK, `{"Table":`+table+`}`)
		case r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.DescribeTimeToLive":
			dynamodb(w, http.StatusOK, `{}`)
		case r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.ListTagsOfResource" && tags != "":
			dynamodb(w, http.StatusOK, `{"Tags":`+tags+`}`)
		default:
			w.WriteHeader(http.StatusNotImplemented)
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_EC2_METADATA_DISABLED": "true", "CDK_DEFAULT_ACCOUNT": "123456789012", "CDK_DEFAULT_REGION": "eu-west-1",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
}

// edited returns the released template with its resources changed.
func edited(t *testing.T, edit func(resources map[string]any)) []byte {
	t.Helper()
	var doc map[string]any
	check.Must(t, json.Unmarshal(golden.text, &doc))
	edit(doc["Resources"].(map[string]any))
	text, err := json.Marshal(doc)
	check.Must(t, err)
	return text
}

// TestUpdatesThatLoseDataAreRefused by what is deployed, however little can be read of it.
func TestUpdatesThatLoseDataAreRefused(t *testing.T) {
	renamed := edited(t, func(r map[string]any) {
		r["Table"].(map[string]any)["Properties"].(map[string]any)["TableName"] = "other"
	})
	const done = "UPDATE_COMPLETE"
	without := func(id string) []byte { return edited(t, func(r map[string]any) { delete(r, id) }) }
	for _, c := range []struct {
		what, account  string
		status         string
		deployed, next []byte
		mayLose        []string
		want           string // in the error; "": accepted
	}{
		{"the same", account, done, golden.text, golden.text, nil, ""},
		{"another name", account, done, golden.text, renamed, nil, "its name would change from zae-limiter to other"},
		{"another name, meant", account, done, golden.text, renamed, []string{"Table"}, ""},
		{"another name, another meant", account, done, golden.text, renamed, []string{holding.Archive},
			"its name would change"},
		{"no table", account, done, golden.text, without("Table"), nil, "table Table: it would leave the stack"},
		{"no archive", account, done, golden.text, without("ArchiveBucket"), nil, "ArchiveBucket: it would leave the stack"},
		{"no archive, meant", account, done, golden.text, without("ArchiveBucket"), []string{holding.Archive}, ""},
		{"of another account", "210987654321", done, golden.text, golden.text, nil, "set AWS_PROFILE instead of --profile"},
		{"no stack", account, "", nil, renamed, nil, ""},
		{"a stack that was only reviewed", account, "REVIEW_IN_PROGRESS", []byte{}, golden.text, nil, ""},
		{"a first deployment that failed", account, "ROLLBACK_COMPLETE", golden.text, renamed, nil, ""},
		{"an update that failed", account, "UPDATE_ROLLBACK_COMPLETE", golden.text, renamed, nil, "its name would change"},
		{"not to be read", account, done, nil, golden.text, nil, "could not be read"},
		{"not to be read, a part meant", account, done, nil, golden.text, []string{"Table"}, "could not be read"},
		{"not to be read, all meant", account, done, nil, renamed, holding.IDs(), ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			cloud(t, c.account, c.status, c.deployed)
			o := options{StackName: "zae-limiter-go", MayLose: c.mayLose}
			check.Says(t, checkUpdate(t.Context(), o, c.next), c.want)
		})
	}
}

// TestTablesThatAreThereAlready: a table of another stack, such as the one before the default
// name changed, is refused with the name of its stack. One that belongs to none may be adopted
// if it fits, also by who may not read its tags.
func TestTablesThatAreThereAlready(t *testing.T) {
	properties := golden.one(t, "AWS::DynamoDB::Table", "Table").Properties
	properties["TableArn"] = "arn:aws:dynamodb:eu-west-1:" + account + ":table/zae-limiter"
	fits := text(t, properties)
	delete(properties, "TableArn")
	other := strings.ReplaceAll(fits, `"ProjectionType":"KEYS_ONLY"`, `"ProjectionType":"ALL"`)
	const ours, theirs = `[{"Key":"aws:cloudformation:stack-name","Value":"zae-limiter-go"}]`,
		`[{"Key":"aws:cloudformation:stack-name","Value":"zae-limiter"}]`
	for _, c := range []struct{ what, table, tags, want string }{
		{"of another stack", fits, theirs,
			"belongs to stack zae-limiter: deploy that one (-c zae-limiter:stackName=zae-limiter)"},
		{"of this stack, as it was left", fits, ours, ""},
		{"of none", fits, `[]`, ""},
		{"of nobody knows whom", fits, "", ""},
		{"of none, with whole items in an index", other, `[]`, "the projection of index GSI2 would change from ALL"},
	} {
		t.Run(c.what, func(t *testing.T) {
			cloudWithTable(t, account, "", nil, c.table, c.tags)
			check.Says(t, checkUpdate(t.Context(), options{StackName: "zae-limiter-go"}, golden.text), c.want)
		})
	}
}

// TestWithoutCredentialsTheReleaseIsCompared, since nothing can be deployed.
func TestWithoutCredentialsTheReleaseIsCompared(t *testing.T) {
	t.Setenv("CDK_DEFAULT_ACCOUNT", "")
	check.NoError(t, checkUpdate(t.Context(), options{}, golden.text))
}
