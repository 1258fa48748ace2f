package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/smithy-go/encoding/cbor"
)

// What Lambda and CloudWatch answer by their documentation. No stand-in answers
// CloudWatch in the form that the SDK reads; test/localstack/deploy has the rest of
// it against an emulator.
func TestStatusOfFunctions(t *testing.T) {
	s := onTable(t)
	var state atomic.Value
	state.Store("Enabled")
	lambda := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/2015-03-31/event-source-mappings") || r.URL.Query().Get("EventSourceArn") == "" {
			t.Errorf("Lambda is asked %s", r.URL)
		}
		fmt.Fprintf(w, `{"EventSourceMappings": [{"UUID": "u", "State": %q, "LastProcessingResult": "OK",
			"FunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:aggregator:live"}]}`, state.Load())
	}))
	defer lambda.Close()
	watch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/operation/GetMetricStatistics") {
			t.Errorf("CloudWatch is asked %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/cbor")
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		_, _ = w.Write(cbor.Encode(cbor.Map{"Datapoints": cbor.List{
			cbor.Map{"Maximum": cbor.Float64(1500), "Sum": cbor.Float64(2)},
		}}))
	}))
	defer watch.Close()
	s.env = append(s.env, "AWS_ENDPOINT_URL_LAMBDA="+lambda.URL, "AWS_ENDPOINT_URL_CLOUDWATCH="+watch.URL)
	s.says(0, "status", "function aggregator Enabled", `last result "OK", lag 1.5s, 2 errors, 2 throttles`)
	type status struct {
		Parts []struct {
			Part    string
			Figures map[string]any
		}
	}
	got := prints[status](s, "status")
	if last := got.Parts[len(got.Parts)-1]; last.Part != "function" || last.Figures["lag_ms"] != 1500.0 {
		t.Errorf("status: %+v", got)
	}
	state.Store("Disabled")
	s.says(3, "status", "function aggregator Disabled", "not right: function aggregator")
}
