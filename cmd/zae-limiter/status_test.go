package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// Status tells of a table what is right, and of one that is not, what is wrong.
func TestStatus(t *testing.T) {
	aws := &anAWS{there: true, expires: true, mapping: "Enabled"}
	s := onAWS(t, aws)
	s.says(0, "status", "ACTIVE", "as it must be", "schema 0.9.0", "default",
		"ENABLED NEW_AND_OLD_IMAGES, 4 shards, 3 of",
		`function aggregator Enabled last result "OK", lag 1.5s, 2 errors, 3 throttles`)
	out, _ := s.run(0, "status", "-o", "json")
	check.Golden(t, "testdata/status.json", out, *update)
	aws.replicas = []string{"us-east-1", "eu-west-1"}
	s.says(0, "status", "as it must be, replicas in eu-west-1: charge in one region only")
	aws.replicas = nil
	aws.mapping = "Disabled"
	s.says(3, "status", "function aggregator Disabled", "not right: function aggregator")
	aws.quiet = true
	s.says(3, "status", "lag not reported, 0 errors, 0 throttles")
	s.says(3, "status -o json", `"lag_ms": -1,`)
	aws.mapping = ""
	s.says(0, "status", "functions none none nothing reads the stream")
	aws.state = "CREATING"
	s.says(3, "status", "CREATING", "not right: table zae-limiter")
	aws.bare, aws.state = true, ""
	s.says(3, "status", "index GSI1: is missing", "stream none off", "no usage, no archive",
		"not right: table zae-limiter, stream none")
	aws.there = false
	s.says(1, "status", "There is no table", "zae-limiter table create")
	aws.denied = "all"
	s.says(1, "status", "The credentials do not allow this")
}

// Status goes on where one of its parts may not be looked at.
func TestStatusOfWhatIsNotAllowed(t *testing.T) {
	aws := &anAWS{there: true, expires: true, mapping: "Enabled"}
	s := onAWS(t, aws)
	aws.denied = "GetMetricStatistics"
	s.says(0, "status", `function aggregator Enabled last result "OK"; lag unknown: `)
	aws.denied = "event-source-mappings"
	s.says(3, "status", "functions unknown unknown operation error Lambda", "not right: functions unknown")
	aws.denied = "DescribeStream"
	s.says(3, "status", "unknown operation error DynamoDB Streams", "function aggregator Enabled", "not right: stream")
}

// Beside a local DynamoDB, AWS is not asked for functions, unless a Lambda is named too.
func TestStatusOfALocalTable(t *testing.T) {
	s := onAWS(t, &anAWS{there: true, expires: true, mapping: "Enabled"})
	lambda := os.Getenv("AWS_ENDPOINT_URL")
	t.Setenv("AWS_ENDPOINT_URL", "")
	s.says(0, "status", "ENABLED", "functions none local DynamoDB is local, and AWS_ENDPOINT_URL_LAMBDA is not set")
	t.Setenv("AWS_ENDPOINT_URL_LAMBDA", lambda)
	t.Setenv("AWS_ENDPOINT_URL_CLOUDWATCH", lambda)
	s.says(0, "status", "function aggregator Enabled")
}

// noMappings answers for a Lambda that feeds nothing.
type noMappings struct{}

func (noMappings) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"EventSourceMappings":[]}`))}, nil
}

// On AWS, Lambda is asked.
func TestFunctionsOnAWS(t *testing.T) {
	anyCredentials(t)
	a := &app{}
	cfg, err := a.awsConfig(t.Context())
	check.Must(t, err)
	cfg.HTTPClient = noMappings{}
	if got := a.functionParts(t.Context(), cfg, streamARN); len(got) != 1 || got[0].State != "none" || !got[0].OK {
		t.Errorf("%+v", got)
	}
}

// Streams are where the table is, unless the environment says otherwise.
func TestWhereStreamsAre(t *testing.T) {
	anyCredentials(t)
	for _, c := range []struct{ table, streams, want string }{
		{"", "", ""}, {"http://a", "", "http://a"}, {"http://a", "http://b", "http://b"}, {"", "http://b", "http://b"},
	} {
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", c.streams)
		a := &app{endpoint: c.table}
		cfg, err := a.awsConfig(t.Context())
		check.Must(t, err)
		check.Equal(t, aws.ToString(a.streams(cfg).Options().BaseEndpoint), c.want,
			"the table at %q, streams at %q: asked at", c.table, c.streams)
	}
}

// Status goes on where the content of the table cannot be read, and says so.
func TestStatusOfWhatIsInTheTable(t *testing.T) {
	s := onAWS(t, &anAWS{there: true, expires: true})
	fresh := shellOn(t, limitertest.New(t))
	fresh.says(0, "status", "version schema none nobody has opened the table yet",
		"namespaces 0 none zae-limiter namespace register default makes one")
	if out, _ := fresh.run(0, "status", "-o", "csv"); strings.Contains(out, "limits,") {
		t.Errorf("limits of no namespace:\n%s", out)
	}
	fails := func(operation string) limitertest.Trouble {
		return limitertest.Trouble{Operations: []string{operation}, Err: limiter.ErrUnavailable}
	}
	s.table.Trouble(fails("Query"))
	s.says(3, "status", "namespaces 0 unknown unavailable: list namespaces", "not right: namespaces 0")
	s.table.Trouble(fails("BatchGetItem"))
	s.says(3, "status", "PART NAME STATE DETAIL", "version zae-limiter unusable", "not right: version zae-limiter")
	s.table.Trouble(limitertest.Trouble{Operations: []string{"BatchGetItem"}, Times: 1}, fails("BatchGetItem"))
	s.says(3, "status", "version schema none", "unavailable", "not right: version schema")
	s.table.Trouble()
	s.run(0, "namespace", "register", "prod")
	s.says(0, "status", "namespaces 2 active default, prod")
}

// Replay says what to do where there is no stack.
func TestReplayWithoutAStack(t *testing.T) {
	s := onAWS(t, &anAWS{})
	s.says(1, "replay", `stack "zae-limiter-go"`, "without the stack of infra/cdk nothing is given up")
}
