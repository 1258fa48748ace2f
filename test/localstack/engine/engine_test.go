package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestMain doubles as the parent of TestDiesWithItsParent.
func TestMain(m *testing.M) {
	if kind := os.Getenv("ENGINE_TEST_CHILD"); kind != "" {
		e, err := Start(context.Background(), Kind(kind))
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(e.server.Pid())
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	code := m.Run()
	StopShared()
	os.Exit(code)
}

func TestEnginesTakeAnItem(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx := context.Background()
			e := ForTest(t, kind)
			t.Logf("%s answered after %v", kind, e.StartedIn)
			table := e.Table(t).Name
			db := e.DynamoDB()
			key := map[string]types.AttributeValue{
				"PK": &types.AttributeValueMemberS{Value: "a"}, "SK": &types.AttributeValueMemberS{Value: "a"}}
			check.Must(t, check.Err(db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: key})))
			got, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key})
			if err != nil || len(got.Item) != 2 {
				t.Fatalf("item %v, error %v", got, err)
			}
		})
	}
}

func TestDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "ENGINE_TEST_CHILD="+string(Dynoxide))
	out, err := parent.Output()
	if err == nil {
		t.Fatal("the parent was not killed")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	check.Must(t, err, "parent printed %q", out)
	for range 6000 {
		if ended(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("engine %d outlived its parent", pid)
}

// ended reports whether a process has ended, perhaps as a zombie.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestStartErrorsSayWhatToDo(t *testing.T) {
	if _, err := Start(context.Background(), "moto"); err == nil || !strings.Contains(err.Error(), `"moto"`) ||
		!strings.Contains(err.Error(), "dynoxide") {
		t.Errorf("unknown kind: %v", err)
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "")
	check.Says(t, check.Err(Start(context.Background(), External)), "AWS_ENDPOINT_URL", "external without a variable")
}

func TestExternalFollowsTheEnvironment(t *testing.T) {
	own := ForTest(t, Dynoxide)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", own.Endpoint)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	e, err := Start(context.Background(), External)
	check.Must(t, err)
	e.Table(t)
	e.Stop()
	check.Must(t, check.Err(own.DynamoDB().ListTables(context.Background(), &dynamodb.ListTablesInput{})),
		"Stop of an external engine ended it")
}
