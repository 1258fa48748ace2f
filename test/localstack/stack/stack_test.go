package stack

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// probe builds the host's test function.
func probe(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", binary, "../runtimeapi/testdata/probe")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// TestEverythingTogether: a crash during the answer delivers the batch again, to a new process. At
// the end all records are processed.
func TestEverythingTogether(t *testing.T) {
	binary := probe(t)
	s, err := Start(t.Context(), Options{Shards: 2,
		Configure: func(name string, host *runtimeapi.Config, m *eventsource.Config) {
			host.Binary = binary // in place of both functions
			m.Settings.Window = 10 * time.Millisecond
			if name == Aggregator {
				host.Inject = func(n int, _ []byte) runtimeapi.Fault { return runtimeapi.Fault{KillAtResponse: n == 1} }
			}
		}})
	check.Must(t, err)
	t.Cleanup(s.Stop)
	db := s.ForClients.DynamoDB()
	for i := range 20 {
		item := map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: "ns/BUCKET#" + strconv.Itoa(i) + "#r#0"},
			"SK": &types.AttributeValueMemberS{Value: "#STATE"},
		}
		check.Must(t, check.Err(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.Table, Item: item})))
	}
	check.Must(t, s.Idle(t.Context()))
	f := s.Functions[Aggregator]
	stats, host := f.Mapping.Stats(), f.Host.Stats()
	t.Logf("mapping %+v, host %+v", stats, host)
	if stats.Records != 20 || stats.Processed != 20 || stats.Dropped != 0 || stats.Failures != 1 || host.Crashes != 1 {
		t.Errorf("mapping %+v, host %+v", stats, host)
	}
	if other := s.Functions[Archiver].Mapping.Stats(); other.Filtered != 20 || other.Invocations != 0 {
		t.Errorf("archiver: %+v", other)
	}
	check.Equal(t, s.Clients.Usage()["PutItem"].Calls, 20, "calls through the proxy")
	s.Stop()
}

func TestMissingBinaryIsNamed(t *testing.T) {
	_, err := Start(t.Context(), Options{Configure: func(_ string, host *runtimeapi.Config, _ *eventsource.Config) {
		host.Binary = filepath.Join(t.TempDir(), "bootstrap")
	}})
	if err == nil || !strings.Contains(err.Error(), Aggregator) || !strings.Contains(err.Error(), "make") {
		t.Errorf("error %v", err)
	}
}
