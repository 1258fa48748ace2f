package main

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

func TestPolicyDeniesToLoseData(t *testing.T) {
	const allow = `{"Effect":"Allow","Principal":"*","Action":["Update:*"],"Resource":["*"]}`
	for _, c := range []struct {
		mayLose []string
		want    string
	}{
		{nil, `{"Statement":[` + allow + `,{"Effect":"Deny","Principal":"*","Action":["Update:Replace","Update:Delete"],` +
			`"Resource":["LogicalResourceId/Table","LogicalResourceId/ArchiveBucket","LogicalResourceId/FailedRecordsBucket"]}]}`},
		{[]string{"Table", "ArchiveBucket"}, `{"Statement":[` + allow + `,{"Effect":"Deny","Principal":"*",` +
			`"Action":["Update:Replace","Update:Delete"],"Resource":["LogicalResourceId/FailedRecordsBucket"]}]}`},
		{holding.IDs(), `{"Statement":[` + allow + `]}`},
	} {
		if got := policy(c.mayLose); got != c.want {
			t.Errorf("may lose %v: %s, want %s", c.mayLose, got, c.want)
		}
	}
}

func TestArgumentsOfTheDeployment(t *testing.T) {
	for _, c := range []struct {
		args    []string
		stack   string
		mayLose []string
	}{
		{nil, "zae-limiter-go", nil},
		{[]string{"--", "-c", "zae-limiter:stackName=prod", "-c", "zae-limiter:mayLose=Table,ArchiveBucket"}, "prod",
			[]string{"Table", "ArchiveBucket"}},
		{[]string{"--context=zae-limiter:stackName=prod", "--profile", "p"}, "prod", nil},
	} {
		if stack, mayLose := chosen(c.args); stack != c.stack || !slices.Equal(mayLose, c.mayLose) {
			t.Errorf("%q: stack %q may lose %v", c.args, stack, mayLose)
		}
	}
}
