package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/streams"
)

const (
	bus   = "arn:aws:events:eu-west-1:123456789012:event-bus/alerts"
	topic = "arn:aws:sns:eu-west-1:123456789012:alerts"
)

var spent = streams.Alert{ID: "0f", Table: "limits", Namespace: "ns", Entity: `team "a" & b=<c>`, Resource: "gpt/4",
	Limit: "budget", Percent: 80, Spent: 401, Quota: 500, ResetsAt: time.Date(2026, 12, 1, 0, 0, 0, 5e6, time.UTC)}

// service is an HTTP server in place of EventBridge and SNS. It accepts correctly signed requests.
type service struct {
	*httptest.Server
	identity aws.Credentials
	header   http.Header
	body     string
	answer   func(w http.ResponseWriter)
}

func newService(t *testing.T) *service {
	s := &service{identity: aws.Credentials{AccessKeyID: "key", SecretAccessKey: "secret", SessionToken: "session"}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		check.NoError(t, err)
		s.header, s.body = r.Header.Clone(), string(body)
		if got, want := r.Header.Get("Authorization"), s.authorization(t, r, body); got != want {
			t.Errorf("signed %s, want %s", got, want)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.answer(w)
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", s.identity.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.identity.SecretAccessKey)
	t.Setenv("AWS_SESSION_TOKEN", s.identity.SessionToken)
	t.Setenv("AWS_REGION", "eu-central-1") // the table's; the target's is in its ARN
	return s
}

// authorization signs a received request again.
func (s *service) authorization(t *testing.T, r *http.Request, body []byte) string {
	t.Helper()
	again, err := http.NewRequestWithContext(t.Context(), r.Method, s.URL+r.URL.Path, strings.NewReader(string(body)))
	check.Must(t, err)
	for _, name := range []string{"Content-Type", "X-Amz-Target"} {
		if v := r.Header.Get(name); v != "" {
			again.Header.Set(name, v)
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	check.NoError(t, err)
	name := map[bool]string{true: "events", false: "sns"}[r.Header.Get("X-Amz-Target") != ""]
	sum := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(t.Context(), s.identity, again, hex.EncodeToString(sum[:]), name, "eu-west-1", at)
	check.Must(t, err)
	return again.Header.Get("Authorization")
}

// send sends an alert like the configured function.
func (s *service) send(t *testing.T, ctx context.Context, target string) error {
	t.Helper()
	env := map[string]string{function.EnvTableName: "limits", function.EnvAlertTargetARN: target}
	o, err := options(func(k string) string { return env[k] }, slog.New(slog.DiscardHandler))
	if err != nil || o.Alert == nil {
		t.Fatal(err)
	}
	return o.Alert(ctx, spent)
}

func says(status int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func TestAlertIsAnEvent(t *testing.T) {
	s := newService(t)
	s.answer = says(200, `{"FailedEntryCount":0,"Entries":[{"EventId":"11710aed-b79e-4468-a20b-bb3c0c3b4860"}]}`)
	check.Must(t, s.send(t, t.Context(), bus))
	var in struct {
		Entries []struct{ EventBusName, Source, DetailType, Detail string }
	}
	if err := json.Unmarshal([]byte(s.body), &in); err != nil || len(in.Entries) != 1 {
		t.Fatalf("%s: %v", s.body, err)
	}
	e := in.Entries[0]
	var got streams.Alert
	if err := json.Unmarshal([]byte(e.Detail), &got); err != nil || got != spent {
		t.Errorf("detail %s: %+v, %v", e.Detail, got, err)
	}
	if e.EventBusName != bus || e.Source != "zae-limiter" || e.DetailType != "quota threshold" ||
		s.header.Get("X-Amz-Target") != "AWSEvents.PutEvents" ||
		s.header.Get("Content-Type") != "application/x-amz-json-1.1" {
		t.Errorf("%+v, header %v", e, s.header)
	}
}

// A message has the form of chat notifications: version, source and content, with text fields only.
func TestAlertIsAMessage(t *testing.T) {
	s := newService(t)
	s.answer = says(200, `<PublishResponse/>`)
	check.Must(t, s.send(t, t.Context(), topic))
	form, err := url.ParseQuery(s.body)
	check.Must(t, err)
	message := form.Get("Message")
	form.Del("Message")
	if got := form.Encode(); got != "Action=Publish&Subject=zae-limiter%3A+quota+threshold&TopicArn="+
		url.QueryEscape(topic)+"&Version=2010-03-31" {
		t.Errorf("form %s", got)
	}
	var got struct {
		Version, Source, ID string
		Content             struct{ Title, Description string }
		Metadata            struct {
			EventType         string
			AdditionalContext map[string]string
		}
	}
	check.Must(t, json.Unmarshal([]byte(message), &got), message)
	m := got.Metadata.AdditionalContext
	if got.Version != "1.0" || got.Source != "custom" || got.ID != "0f" || got.Metadata.EventType != "quota threshold" ||
		got.Content.Title != `team "a" & b=<c> has spent 80 % of budget` ||
		got.Content.Description != "401 of 500 for gpt/4, until 2026-12-01T00:00:00Z" {
		t.Errorf("message %s", message)
	}
	for name, want := range map[string]string{"table": "limits", "namespace": "ns", "entity": spent.Entity,
		"resource": "gpt/4", "limit": "budget", "percent": "80", "spent": "401", "quota": "500",
		"resets_at": "2026-12-01T00:00:00.005Z"} {
		check.Equal(t, m[name], want, name)
	}
}

// Only an answer that reports success is one. An error that no retry can help is refused; any other
// may be retried.
func TestOnlyReportedSuccessesSucceed(t *testing.T) {
	s := newService(t)
	const taken, again, refused = "taken", "again", "refused"
	for _, c := range []struct {
		name, target string
		answer       func(http.ResponseWriter)
		want         string
	}{
		{"an entry that failed", bus, says(200,
			`{"FailedEntryCount":1,"Entries":[{"ErrorCode":"ThrottlingException"}]}`), again},
		{"an entry that is forbidden", bus, says(200,
			`{"FailedEntryCount":1,"Entries":[{"ErrorCode":"AccessDeniedException"}]}`), refused},
		{"an invalid answer", bus, says(200, `<html>`), again},
		{"an answer without a count", bus, says(200, `{}`), again},
		{"throttled", bus, says(400, `{"__type":"ThrottlingException"}`), again},
		{"down", bus, says(500, `{"FailedEntryCount":0}`), again},
		{"down, and it does not know", bus, says(500, `NotFound`), again},
		{"no such bus", bus, says(400, `{"__type":"ResourceNotFoundException"}`), refused},
		{"forbidden", bus, says(400, `{"__type":"AccessDeniedException"}`), refused},
		{"expired identity", bus, says(400, `{"__type":"ExpiredTokenException"}`), again},
		{"published", topic, says(200, `<PublishResponse/>`), taken},
		{"throttled", topic, says(429, `<Code>Throttled</Code>`), again},
		{"no such topic", topic, says(404, `<Code>NotFound</Code>`), refused},
		{"forbidden", topic, says(403, `<Code>AuthorizationError</Code>`), refused},
		{"its key is disabled", topic, says(400, `<Code>KMSDisabled</Code>`), refused},
		{"its key is to be deleted", topic, says(400, `<Code>KMSInvalidState</Code>`), refused},
		{"its key is throttled", topic, says(400, `<Code>KMSThrottling</Code>`), again},
		{"an invalid message", topic, says(400, `<Code>InvalidParameter</Code>`), refused},
		{"an invalid event", bus, says(400, `{"__type":"ValidationException"}`), refused},
		{"an entry that is invalid", bus, says(200,
			`{"FailedEntryCount":1,"Entries":[{"ErrorCode":"InvalidArgument"}]}`), refused},
		{"no permission for its key", topic, says(400, `<Code>KMSAccessDenied</Code>`), refused},
		{"moved", topic, says(301, ``), again},
		{"cut off", topic, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(http.StatusOK)
		}, again},
	} {
		s.answer = c.answer
		err := s.send(t, t.Context(), c.target)
		got := again
		if err == nil {
			got = taken
		} else if errors.Is(err, streams.ErrAlertRefused) {
			got = refused
		}
		check.Equal(t, got, c.want, "%s: : %v", c.name, err)
	}
	s.answer = says(403, `AuthorizationError: "no"`)
	const want = "streams: alert refused: " + topic + ` answers 403: "AuthorizationError: \"no\""`
	if err := s.send(t, t.Context(), topic); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A call ends with its context. If it reaches no server, or cannot be signed or encoded, it is an
// error.
func TestAlertsWithoutAnAnswerFail(t *testing.T) {
	s := newService(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	check.Is(t, s.send(t, over, topic), context.Canceled, "after the end")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if err := s.send(t, t.Context(), topic); err == nil {
		t.Error("sent without credentials")
	}
	to, err := newTarget(bus, aws.Config{})
	check.Must(t, err)
	late := streams.Alert{ResetsAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} // JSON has no such year
	if _, ok := errors.AsType[*json.MarshalerError](to.send(t.Context(), late)); !ok {
		t.Error("sent what cannot be written")
	}
	s.Close()
	if err := s.send(t, t.Context(), topic); err == nil || errors.Is(err, streams.ErrAlertRefused) {
		t.Errorf("no server: %v", err)
	}
}

func TestARNsDetermineTheTarget(t *testing.T) {
	for text, want := range map[string]string{
		bus: "https://events.eu-west-1.amazonaws.com", topic: "https://sns.eu-west-1.amazonaws.com",
		"arn:aws-us-gov:sns:us-gov-west-1:123456789012:a": "https://sns.us-gov-west-1.amazonaws.com",
		"arn:aws-cn:events:cn-north-1:1:event-bus/a":      "https://events.cn-north-1.amazonaws.com.cn",
	} {
		if to, err := newTarget(text, aws.Config{}); err != nil || to.url != want {
			t.Errorf("%s is at %+v, want %s: %v", text, to, want, err)
		}
	}
}
