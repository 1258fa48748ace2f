package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// cloud answers as CloudFormation does of the stack "prod", which is in this status and whose
// template has these resources, and returns where its policy stands. It refuses a policy that
// names what the stack has not, and one of a stack that cannot be updated any more.
func cloud(t *testing.T, status string, resources ...string) (set *string) {
	t.Helper()
	set = new(string)
	refuse := func(w http.ResponseWriter, why string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "<E><Error><Code>ValidationError</Code><Message>%s</Message></Error></E>", why)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.NoError(t, r.ParseForm())
		action, policy := r.Form.Get("Action"), r.Form.Get("StackPolicyBody")
		switch {
		case r.Form.Get("StackName") != "prod":
			refuse(w, "no such stack")
		case action == "DescribeStacks":
			fmt.Fprintf(w, "<R><DescribeStacksResult><Stacks><member><StackStatus>%s</StackStatus></member></Stacks>"+
				"</DescribeStacksResult></R>", status)
		case action == "SetStackPolicy" && strings.HasPrefix(status, "ROLLBACK_"):
			refuse(w, "the stack is in "+status)
		case action == "GetTemplate":
			template := `{"Resources": {"Other": {}`
			for _, id := range resources {
				template += `, "` + id + `": {}`
			}
			fmt.Fprintf(w, "<R><GetTemplateResult><TemplateBody>%s}}</TemplateBody></GetTemplateResult></R>", template)
		case action == "SetStackPolicy":
			for _, named := range regexp.MustCompile(`LogicalResourceId/(\w+)`).FindAllStringSubmatch(policy, -1) {
				if !slices.Contains(resources, named[1]) {
					refuse(w, "Error validating stack policy: Unknown logical id")
					return
				}
			}
			*set = policy
			fmt.Fprint(w, "<R></R>")
		default:
			w.WriteHeader(http.StatusNotImplemented)
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	return set
}

// TestPolicyDeniesToLoseData of what the stack has, except for what may be lost, which after
// the deployment is nothing any more.
func TestPolicyDeniesToLoseData(t *testing.T) {
	const allow = `{"Effect":"Allow","Principal":"*","Action":["Update:*"],"Resource":["*"]}`
	deny := func(ids string) string {
		return `{"Statement":[` + allow + `,{"Effect":"Deny","Principal":"*","Action":["Update:Replace","Update:Delete"],` +
			`"Resource":[` + ids + `]}]}`
	}
	all := deny(`"LogicalResourceId/Table","LogicalResourceId/ArchiveBucket","LogicalResourceId/FailedRecordsBucket"`)
	for _, c := range []struct {
		has, args []string
		want      string
	}{
		{holding.IDs(), nil, all},
		{holding.IDs(), []string{"-c", "zae-limiter:mayLose=Table,ArchiveBucket"},
			deny(`"LogicalResourceId/FailedRecordsBucket"`)},
		{holding.IDs(), []string{"-c", "zae-limiter:mayLose=Table,ArchiveBucket,FailedRecordsBucket"},
			`{"Statement":[` + allow + `]}`},
		{[]string{"Table", "FailedRecordsBucket"}, nil,
			deny(`"LogicalResourceId/Table","LogicalResourceId/FailedRecordsBucket"`)},
		{[]string{"FailedRecordsBucket"}, []string{"-c", "zae-limiter:mayLose=Table"},
			deny(`"LogicalResourceId/FailedRecordsBucket"`)},
		{nil, nil, `{"Statement":[` + allow + `]}`},
	} {
		set := cloud(t, "CREATE_COMPLETE", c.has...)
		args := append([]string{"--", "-c", "zae-limiter:stackName=prod"}, c.args...)
		if err := run(t.Context(), args); err != nil || *set != c.want {
			t.Errorf("%v with %v: error %v, %s, want %s", c.has, args, err, *set, c.want)
		}
		err := run(t.Context(), append([]string{"-after"}, args...))
		if whole := len(c.has) == len(holding.IDs()); err != nil || whole && *set != all {
			t.Errorf("%v after the deployment: error %v, %s", c.has, err, *set)
		}
	}
}

// TestMissingStacks are left alone before a deployment, and an error after it.
func TestMissingStacks(t *testing.T) {
	for _, c := range []struct{ status, stack string }{
		{"CREATE_COMPLETE", "none"}, {"REVIEW_IN_PROGRESS", "prod"},
		// Of a first deployment that failed; the next one deletes the stack, and makes it again.
		{"ROLLBACK_COMPLETE", "prod"}, {"ROLLBACK_FAILED", "prod"},
	} {
		set := cloud(t, c.status, holding.IDs()...)
		if err := run(t.Context(), []string{"--", "-c", "zae-limiter:stackName=" + c.stack}); err != nil || *set != "" {
			t.Errorf("%v: policy %s, error %v", c, *set, err)
		}
		if err := run(t.Context(), []string{"-after", "--", "-c", "zae-limiter:stackName=" + c.stack}); err == nil {
			t.Errorf("%v: a stack that is not there is protected", c)
		}
	}
}

// TestOptionsOfTheDeployment: the options of cdk.json, and those of the command line in every
// form that the tool takes, which come before them.
func TestOptionsOfTheDeployment(t *testing.T) {
	for _, c := range []struct {
		file    string // "": there is none
		args    []string
		stack   string
		mayLose []string
	}{
		{"", nil, "zae-limiter-go", nil},
		{`{"app": "x"}`, nil, "zae-limiter-go", nil},
		{"", []string{"--", "-c", "zae-limiter:stackName=prod", "-c", "zae-limiter:mayLose=Table,ArchiveBucket"}, "prod",
			[]string{"Table", "ArchiveBucket"}},
		{"", []string{"--context=zae-limiter:stackName=prod", "--profile", "p"}, "prod", nil},
		{"", []string{"--context", "zae-limiter:stackName=prod"}, "prod", nil},
		{"", []string{"-c=zae-limiter:stackName=prod"}, "prod", nil},
		{"", []string{"-czae-limiter:stackName=prod", "-czae-limiter:mayLose=Table, ArchiveBucket"}, "prod",
			[]string{"Table", "ArchiveBucket"}},
		{`{"context": {"zae-limiter:stackName": "prod", "zae-limiter:maxShards": 8}}`, nil, "prod", nil},
		{`{"context": {"zae-limiter:stackName": "prod", "zae-limiter:mayLose": "Table"}}`,
			[]string{"-c", "zae-limiter:stackName=test"}, "test", []string{"Table"}},
		{`{"context": {"zae-limiter:mayLose": ["Table", "ArchiveBucket"]}}`, nil, "zae-limiter-go",
			[]string{"Table", "ArchiveBucket"}},
	} {
		path := filepath.Join(t.TempDir(), "cdk.json")
		if c.file != "" {
			check.Must(t, os.WriteFile(path, []byte(c.file), 0o600))
		}
		stack, mayLose, err := chosen(path, c.args)
		if err != nil || stack != c.stack || !slices.Equal(mayLose, c.mayLose) {
			t.Errorf("%s, %q: stack %q may lose %q, error %v", c.file, c.args, stack, mayLose, err)
		}
	}
	path := filepath.Join(t.TempDir(), "cdk.json")
	check.Must(t, os.WriteFile(path, []byte("{"), 0o600))
	if _, _, err := chosen(path, nil); err == nil {
		t.Error("a file that cannot be read is passed over")
	}
}
