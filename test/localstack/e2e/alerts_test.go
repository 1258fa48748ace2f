package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// sent is a request to EventBridge or SNS, with the parts that they read.
type sent struct {
	Method, Path, ContentType, Target string
	Scope                             string // of the signature: region and service
	Body                              any
}

// targets is an HTTP server in place of both services. It refuses the first request.
type targets struct {
	*httptest.Server
	mu     sync.Mutex
	sent   []sent
	bodies []string
}

func newTargets(t *testing.T) *targets {
	s := &targets{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		text, err := io.ReadAll(r.Body)
		check.NoError(t, err)
		_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		scope, _, _ = strings.Cut(scope, ",")
		parts := strings.SplitN(scope, "/", 3) // key, day, and the rest
		got := sent{Method: r.Method, Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"),
			Target: r.Header.Get("X-Amz-Target"), Scope: parts[len(parts)-1]}
		answer := `<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>`
		if got.Target != "" {
			err = json.Unmarshal(text, &got.Body)
			answer = `{"FailedEntryCount":0,"Entries":[{"EventId":"1"}]}`
		} else {
			got.Body, err = url.ParseQuery(string(text))
		}
		check.NoError(t, err, "%s", text)
		s.sent, s.bodies = append(s.sent, got), append(s.bodies, string(text))
		if len(s.sent) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// The built function sends the same requests as the SDK's own clients. A refused request is sent
// again, with the same bytes.
func TestThresholdsAreSent(t *testing.T) {
	for target, bySDK := range map[string]func(*testing.T, aws.Config, any) error{
		"arn:aws:events:eu-west-1:123456789012:event-bus/alerts": func(t *testing.T, cfg aws.Config, body any) error {
			e := body.(map[string]any)["Entries"].([]any)[0].(map[string]any)
			text := func(name string) *string { return aws.String(e[name].(string)) }
			_, err := eventbridge.NewFromConfig(cfg).PutEvents(t.Context(), &eventbridge.PutEventsInput{
				Entries: []types.PutEventsRequestEntry{{EventBusName: text("EventBusName"), Source: text("Source"),
					DetailType: text("DetailType"), Detail: text("Detail")}}})
			return err
		},
		"arn:aws:sns:eu-west-1:123456789012:alerts": func(t *testing.T, cfg aws.Config, body any) error {
			form := body.(url.Values)
			_, err := sns.NewFromConfig(cfg).Publish(t.Context(), &sns.PublishInput{TopicArn: aws.String(form.Get("TopicArn")),
				Subject: aws.String(form.Get("Subject")), Message: aws.String(form.Get("Message"))})
			return err
		},
	} {
		s := newTargets(t)
		r := start(t, setup{aggregate: func(host *runtimeapi.Config, _ *eventsource.Config) {
			host.Env = append(host.Env, "AWS_ENDPOINT_URL="+s.URL, "ALERT_TARGET_ARN="+target, "THRESHOLDS=budget=50")
		}})
		_, err := r.lib.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: "gpt",
			Costs:  limiter.Costs{"budget": 60},
			Limits: []limiter.Limit{limiter.Quota("budget", 100, limiter.Yearly(1, 1, ""))}})
		check.Must(t, err)
		r.rest()
		if len(s.sent) != 2 || s.bodies[0] != s.bodies[1] {
			t.Fatalf("%s: sent %q", target, s.bodies)
		}
		if !strings.Contains(s.bodies[0], "acme") {
			t.Errorf("sent %s", s.bodies[0])
		}
		cfg := aws.Config{Region: "eu-west-1", BaseEndpoint: aws.String(s.URL),
			Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")}
		check.Must(t, bySDK(t, cfg, s.sent[1].Body))
		if got, want := s.sent[1], s.sent[2]; !reflect.DeepEqual(got, want) {
			t.Errorf("sent\n%+v, the SDK sends\n%+v", got, want)
		}
	}
}
