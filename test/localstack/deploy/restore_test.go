//go:build deploy

package deploy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// budget spends from a quota, and returns the error.
func (w *world) budget(t *testing.T, id identity, table string, cost int64) error {
	t.Helper()
	l, err := limiter.Open(t.Context(), w.dynamodb(id), table, &limiter.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	limits := []limiter.Limit{limiter.Quota("budget", 10, limiter.Yearly(1, 1, ""))}
	lease, err := l.Acquire(t.Context(), limiter.Request{Entity: "spender", Resource: "api",
		Costs: limiter.Costs{"budget": cost}, Limits: limits})
	if err != nil {
		return err
	}
	return lease.Commit(t.Context())
}

// restored follows docs/operations.md: the table is restored under another name while clients go
// on, is repaired, and the stack follows.
func (w *world) restored(t *testing.T) {
	const name = tableName + "-2"
	db := w.dynamodb(root)
	check.Must(t, w.budget(t, root, tableName, 4))
	if err := w.acquire(t.Context(), root, "acme", 2); err != nil { // perhaps not counted yet
		t.Fatal(err)
	}
	if _, err := db.RestoreTableToPointInTime(t.Context(), &dynamodb.RestoreTableToPointInTimeInput{
		SourceTableName: aws.String(tableName), TargetTableName: aws.String(name), UseLatestRestorableTime: aws.Bool(true),
	}); err != nil {
		t.Fatal(err)
	}
	// Requests on the old table after the restore point.
	old := &world{emulator: w.emulator, granted: map[string]int64{"acme": w.granted["acme"]}, stack: w.stack,
		table: tableName, outputs: w.outputs}
	check.Must(t, errors.Join(old.acquire(t.Context(), root, "acme", 5), w.budget(t, root, tableName, 3)))
	old.counted(t, "acme")

	said, err := w.tool("-t", name, "table", "check")
	if err == nil || !strings.Contains(said, "stream: is off") || !strings.Contains(said, "time to live: is off") {
		t.Errorf("a restored table as it is: %v\n%s", err, said)
	}
	said, err = w.tool("-t", name, "table", "repair")
	if err != nil || strings.Count(said, "switched on") != 4 {
		t.Fatalf("repair: %v\n%s", err, said)
	}
	if said, err := w.tool("-t", name, "table", "check"); err != nil {
		t.Errorf("a repaired table: %v\n%s", err, said)
	}
	if said, err := w.tool("-t", name, "table", "repair"); err != nil || strings.Count(said, "was on") != 4 {
		t.Errorf("repair again: %v\n%s", err, said)
	}
	is := w.describe(t, name)
	if !aws.ToBool(is.DeletionProtectionEnabled) || is.LatestStreamArn == nil {
		t.Fatalf("%+v", is)
	}

	// The application may use both tables, and switches over. Tokens spent since the restore point
	// are granted again. Each table has its own rest.
	app := w.user(t, "application-restored", w.outputs["AcquirePolicyArn"])
	w.mayAcquire(t, "application-restored", name)
	check.NoError(t, w.budget(t, app, name, 6), "six of ten are left, as at the restore point")
	check.Is(t, w.budget(t, app, name, 1), limiter.ErrLimited, "an eleventh is not denied")
	check.NoError(t, w.budget(t, app, tableName, 3), "the old table has three left")
	w.table = name
	check.Must(t, w.acquire(t.Context(), app, "acme", 7))

	options := []string{"namespaces=default,team-a,team-b", "tableName=" + name,
		"existingStreamArn=" + aws.ToString(is.LatestStreamArn)}
	_, err = w.cdk("synth", "--quiet", "--output", w.folder(t, "unfollowed"), "-c", contextPrefix+options[1],
		"-c", contextPrefix+options[2])
	check.Says(t, err, "table Table: it would leave the stack", "the stack drops its table without a word")
	w.first = w.synth(t, "followed", stack, append(options, "mayLose=Table"), nil)
	w.mustCDK(t, "deploy", "--app", w.first, "--require-approval", "never")
	w.read(t)
	if w.outputs["TableName"] != name || w.outputs["StreamArn"] != aws.ToString(is.LatestStreamArn) {
		t.Errorf("outputs %v", w.outputs)
	}
	w.counted(t, "acme") // the grants until the restore point, counted by then or not, and seven more
	check.Must(t, w.acquire(t.Context(), app, "acme", 2))
	w.counted(t, "acme")
	old.counted(t, "acme") // the old table, which is kept, has the usage of the gap
	if made := *w.describe(t, tableName).CreationDateTime; !made.Equal(w.made) {
		t.Error("the old table is another one")
	}
	check.Is(t, w.budget(t, w.user(t, "application-late", w.outputs["AcquirePolicyArn"]), tableName, 1),
		limiter.ErrSetup, "the policy of the stack still allows the old table")
}

// mayAcquire gives a user permission to acquire from a table, in the form that the tool prints.
func (w *world) mayAcquire(t *testing.T, user, table string) {
	t.Helper()
	said, err := w.tool("-t", table, "table", "policy", "acquire")
	if err != nil {
		t.Fatal(err, said)
	}
	check.Must(t, check.Err(w.iam().PutUserPolicy(t.Context(), &iam.PutUserPolicyInput{UserName: aws.String(user),
		PolicyName: aws.String(fmt.Sprintf("acquire-%s", table)), PolicyDocument: aws.String(said)})))
}
