package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/zeroae/zae-limiter-go/streams"
)

// The names of alerts, for rules of an event bus and for readers of mail.
const (
	alertSource = "zae-limiter"
	alertType   = "quota threshold"
)

// target is the event bus or SNS topic for alerts. Each accepts one signed POST. The SDK's clients
// of the two services would exceed the function's size limit of 12 MB, and they would repeat what
// the stream repeats anyway.
type target struct {
	arn    arn.ARN
	url    string
	config aws.Config
	sign   *v4.Signer
}

// newTarget returns the target of an ARN that internal/function has validated.
func newTarget(text string, cfg aws.Config) (*target, error) {
	to, err := arn.Parse(text)
	if err != nil {
		return nil, err
	}
	domain := ".amazonaws.com"
	if to.Partition == "aws-cn" {
		domain += ".cn"
	}
	t := &target{arn: to, config: cfg, url: "https://" + to.Service + "." + to.Region + domain, sign: v4.NewSigner()}
	if cfg.BaseEndpoint != nil { // AWS_ENDPOINT_URL
		t.url = *cfg.BaseEndpoint
	}
	return t, nil
}

// send sends an alert once. After an error other than [streams.ErrAlertRefused], another attempt
// may succeed, or the alert may have been sent.
func (t *target) send(ctx context.Context, a streams.Alert) error {
	header, body, err := t.request(a)
	if err != nil {
		return err
	}
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	in.Header = header
	identity, err := t.config.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	err = t.sign.SignHTTP(ctx, identity, in, hex.EncodeToString(sum[:]), t.arn.Service, t.arn.Region, time.Now())
	if err != nil {
		return err
	}
	out, err := t.config.HTTPClient.Do(in)
	if err != nil {
		return err
	}
	defer out.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(out.Body, 64<<10))
	if err != nil {
		return err
	}
	return t.outcome(out.StatusCode, answer)
}

// request returns the request for the target.
func (t *target) request(a streams.Alert) (header http.Header, body []byte, err error) {
	if t.arn.Service == "sns" {
		message, err := json.Marshal(chat(a))
		form := url.Values{"Action": {"Publish"}, "Version": {"2010-03-31"}, "TopicArn": {t.arn.String()},
			"Subject": {alertSource + ": " + alertType}, "Message": {string(message)}}
		return http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form.Encode()), err
	}
	detail, err := json.Marshal(a)
	if err != nil {
		return nil, nil, err
	}
	type entry struct{ EventBusName, Source, DetailType, Detail string }
	body, err = json.Marshal(map[string][]entry{"Entries": {{t.arn.String(), alertSource, alertType, string(detail)}}})
	return http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {"AWSEvents.PutEvents"}}, body, err
}

// chat returns an alert in the only JSON form that Amazon Q Developer in chat applications,
// formerly AWS Chatbot, shows from a topic. The values for programs are in additionalContext, which
// has only texts.
func chat(a streams.Alert) map[string]any {
	return map[string]any{
		"version": "1.0", "source": "custom", "id": a.ID,
		"content": map[string]any{
			"title": fmt.Sprintf("%s has spent %d %% of %s", a.Entity, a.Percent, a.Limit),
			"description": fmt.Sprintf("%d of %d for %s, until %s", a.Spent, a.Quota, a.Resource,
				a.ResetsAt.Format(time.RFC3339)),
		},
		"metadata": map[string]any{"eventType": alertType, "additionalContext": map[string]string{
			"table": a.Table, "namespace": a.Namespace, "entity": a.Entity, "resource": a.Resource, "limit": a.Limit,
			"percent": strconv.Itoa(a.Percent), "spent": strconv.FormatInt(a.Spent, 10),
			"quota": strconv.FormatInt(a.Quota, 10), "resets_at": a.ResetsAt.Format(time.RFC3339Nano),
		}},
	}
}

// outcome interprets a response. An event bus responds 200 even for an event that it has not
// accepted.
func (t *target) outcome(status int, answer []byte) error {
	var events struct{ FailedEntryCount *int }
	taken := status == http.StatusOK
	if taken && t.arn.Service == "events" {
		err := json.Unmarshal(answer, &events)
		taken = err == nil && events.FailedEntryCount != nil && *events.FailedEntryCount == 0
	}
	if taken {
		return nil
	}
	err := fmt.Errorf("%s answers %d: %.500q", t.arn, status, answer)
	for _, lasting := range []string{"NotFound", "AccessDenied", "AuthorizationError", "KMSDisabled", "KMSInvalidState",
		"InvalidParameter", "InvalidArgument", "ValidationException"} {
		if status < http.StatusInternalServerError && strings.Contains(string(answer), lasting) {
			return fmt.Errorf("%w: %w", streams.ErrAlertRefused, err)
		}
	}
	return err
}
