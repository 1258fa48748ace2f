package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

const refusal = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no"}`

// telling returns a store whose server has a clock that is ahead.
func telling(t *testing.T, ahead time.Duration, status int, body string, header map[string]string) *store.Dynamo {
	t.Helper()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	return open(s.URL, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
}

// signed returns the headers that DynamoDB sends with a body.
func signed(body string) map[string]string {
	return map[string]string{"X-Amzn-Requestid": "01A1FDBA57FD7E609C2D", "X-Amz-Crc32": checksum(body)}
}

func write(ctx context.Context, d *store.Dynamo) error { _, err := d.Write(ctx, update()); return err }
func read(ctx context.Context, d *store.Dynamo) error  { _, err := d.Read(ctx, false, key); return err }

// Answers to granted and refused writes and to reads have DynamoDB's time.
func TestAnswersHaveDynamoDBsTime(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		call   func(context.Context, *store.Dynamo) error
	}{
		"a granted write": {200, "{}", write},
		"a refused write": {400, refusal, func(ctx context.Context, d *store.Dynamo) error {
			if err := write(ctx, d); !errors.As(err, new(*store.Refused)) {
				return fmt.Errorf("not refused: %w", err)
			}
			return nil
		}},
		"a read": {200, `{"Responses":{"table":[]}}`, read},
	} {
		for _, ahead := range []time.Duration{0, time.Hour, -2 * time.Hour} {
			d := telling(t, ahead, tt.status, tt.body, signed(tt.body))
			begin := time.Now()
			check.Must(t, tt.call(t.Context(), d), name)
			// The answer was made during the call, and has whole seconds.
			leeway := time.Since(begin) + 2*time.Second
			if got := d.Offset(); got < ahead-leeway || got > ahead+leeway {
				t.Errorf("%s, server ahead by %v: offset %v, want it within %v", name, ahead, got, leeway)
			}
		}
	}
}

// Proxies between a process and DynamoDB have clocks too, which may be wrong.
func TestProxiesDoNotSetTheClock(t *testing.T) {
	id := map[string]string{"X-Amzn-Requestid": "01A1FDBA57FD"}
	aged := signed(refusal)
	aged["Age"] = "3600"
	for name, a := range map[string]struct {
		status int
		body   string
		header map[string]string
	}{
		"an egress proxy's 503":        {503, "<html>no upstream</html>", nil},
		"a proxy's 503 with an id":     {503, "<html>no upstream</html>", id},
		"a 503 with both and no error": {503, "<html></html>", signed("<html></html>")},
		"a gateway's 403 in JSON":      {403, `{"message":"forbidden"}`, nil},
		"a 200 that is not AWS's":      {200, "{}", nil},
		"a refusal without checksum":   {400, refusal, id},
		"a refusal without an id":      {400, refusal, map[string]string{"X-Amz-Crc32": checksum(refusal)}},
		"an answer from a cache":       {400, refusal, aged},
	} {
		d := telling(t, 50*time.Second, a.status, a.body, a.header)
		for range 5 {
			_ = write(t.Context(), d)
			_ = read(t.Context(), d)
		}
		check.Equal(t, d.Offset(), 0, "%s: offset", name)
	}
}
