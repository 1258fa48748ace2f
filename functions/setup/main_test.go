package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// CloudFormation reads up to 4,096 bytes of an answer. A longer answer fails the deployment without
// the reason. Ten refused steps are longer, because DynamoDB names the caller, the action and the
// reason.
func TestAnswersAreNeverTooLong(t *testing.T) {
	var answer []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		check.NoError(t, check.Err(b.ReadFrom(r.Body)))
		answer = b.Bytes()
	}))
	defer server.Close()
	for _, long := range []string{"denied", strings.Repeat(`User "x" is not authorized, `, 500), strings.Repeat(`"`, 9000),
		strings.Repeat(`"`, 2500), strings.Repeat("ü", 9000), "x" + strings.Repeat("ü", 9000),
		strings.Repeat("<é>&", 2500), strings.Repeat("\x01", 1500), strings.Repeat("\u2028", 9000),
		strings.Repeat("\xff\n", 5000)} {
		h, _ := rig(t)
		h.table = strings.Repeat("t", 255)
		var log bytes.Buffer
		h.log = slog.New(slog.NewTextHandler(&log, nil))
		h.check = func(context.Context, string) error {
			return &limitertable.DiffError{Table: "limits", Diffs: []string{long}}
		}
		e := event(cfn.RequestUpdate, "default")
		e.ResponseURL, e.LogicalResourceID = server.URL, strings.Repeat("L", 255)
		e.StackID = declaring(cfn.RequestUpdate).StackID + strings.Repeat("s", 128)
		check.Must(t, check.Err(answered(h)(t.Context(), e)))
		said := string(answer)
		if len(answer) > 4096 || !strings.Contains(said, `"Status":"FAILED"`) || !strings.Contains(said, "set up table") {
			t.Errorf("%d bytes: %.200s", len(answer), answer)
		}
		if strings.Contains(said, `\ufffd`) {
			t.Errorf("half a letter: %s", answer)
		}
		if cut := strings.Contains(said, "the function's log has the rest"); cut != (long != "denied") {
			t.Errorf("cut %v: %.200s", cut, answer)
		}
		if !strings.Contains(log.String(), "table not set up") {
			t.Errorf("log %.200s", log.String())
		}
	}
}

// silence is a server that never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// An answer that CloudFormation does not take ends before the invocation does. Lambda then repeats
// the request, while CloudFormation still waits.
func TestAnUnansweredReportFailsTheInvocationInTime(t *testing.T) {
	before := *http.DefaultClient
	defer func() { *http.DefaultClient = before }()
	synctest.Test(t, func(t *testing.T) {
		h, _ := rig(t)
		report := answered(h)
		http.DefaultClient.Transport = silence{}
		end := time.Now().Add(margin)
		ctx, cancel := context.WithDeadline(t.Context(), end.Add(time.Minute))
		defer cancel()
		e := event(cfn.RequestUpdate, "default")
		e.ResponseURL = "http://cloudformation"
		if _, err := report(ctx, e); err == nil || time.Now().After(end) {
			t.Errorf("%v after %v: %v", time.Since(end), end, err)
		}
	})
}
