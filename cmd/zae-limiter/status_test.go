package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Beside a local DynamoDB, AWS is not asked for functions, unless a Lambda is named too.
func TestStatusOfALocalTable(t *testing.T) {
	s := onAWS(t, &anAWS{There: true, Expires: true, Mapping: "Enabled"})
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
