package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// answer is what an HTTP server says to every request.
type answer struct {
	status int
	body   string
	ahead  time.Duration // of the time it tells
	header map[string]string
}

// dynamo returns a store whose every request gets the answer of the moment.
func dynamo(t *testing.T) (*Dynamo, *answer) {
	t.Helper()
	a := &answer{status: 200, body: "{}"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(a.ahead).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		for name, value := range a.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
	}))
	t.Cleanup(server.Close)
	return NewDynamo(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), RetryMaxAttempts: 1,
	}), "t"), a
}

// signed makes the answer one as DynamoDB gives it: with a request id and the
// checksum of the body.
func (a *answer) signed() *answer {
	a.header = map[string]string{
		"X-Amzn-Requestid": "01A1FDBA57FD7E609C2DF2216B883D9E01A1FDBA57FD7E609C2D",
		"X-Amz-Crc32":      fmt.Sprint(crc32.ChecksumIEEE([]byte(a.body))),
	}
	return a
}

const refusal = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no"}`

func clockUpdate() item.Update {
	return item.Update{Key: item.Key{PK: "p", SK: "s"}, Set: []item.Attr{{Name: "a", Value: item.N(1)}}}
}

// Granted and refused writes tell DynamoDB's time, and so do reads.
func TestDynamoDBTellsTheTime(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		call   func(context.Context, *Dynamo) error
	}{
		"a granted write": {200, "{}", func(ctx context.Context, d *Dynamo) error {
			_, err := d.Write(ctx, clockUpdate())
			return err
		}},
		"a refused write": {400, refusal, func(ctx context.Context, d *Dynamo) error {
			if _, err := d.Write(ctx, clockUpdate()); !errors.As(err, new(*Refused)) {
				return fmt.Errorf("not refused: %w", err)
			}
			return nil
		}},
		"a read": {200, `{"Responses":{"t":[]}}`, func(ctx context.Context, d *Dynamo) error {
			_, err := d.Read(ctx, false, clockUpdate().Key)
			return err
		}},
	} {
		for _, ahead := range []time.Duration{0, time.Hour, -2 * time.Hour} {
			d, a := dynamo(t)
			a.status, a.body, a.ahead = tt.status, tt.body, ahead
			a.signed()
			begin := time.Now()
			if err := tt.call(t.Context(), d); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// The answer was made some time during the call, and names whole seconds.
			leeway := time.Since(begin) + 2*time.Second
			if got := d.Offset(); got < ahead-leeway || got > ahead+leeway {
				t.Errorf("%s, server ahead by %v: offset %v, want it within %v", name, ahead, got, leeway)
			}
		}
	}
}

// What stands between a process and DynamoDB has a clock too, and nobody knows
// how good that is.
func TestNobodyElseTellsTheTime(t *testing.T) {
	id := map[string]string{"X-Amzn-Requestid": "01A1FDBA57FD"}
	sum := map[string]string{"X-Amz-Crc32": fmt.Sprint(crc32.ChecksumIEEE([]byte(refusal)))}
	for name, a := range map[string]answer{
		"an egress proxy's 503":    {status: 503, body: "<html>no upstream</html>"},
		"a proxy's 503 with an id": {status: 503, body: "<html>no upstream</html>", header: id},
		"a 503 with both and no error": {status: 503, body: "<html></html>", header: map[string]string{
			"X-Amzn-Requestid": "01A1FDBA57FD", "X-Amz-Crc32": fmt.Sprint(crc32.ChecksumIEEE([]byte("<html></html>"))),
		}},
		"a gateway's 403 in JSON":    {status: 403, body: `{"message":"forbidden"}`},
		"a 200 that is not AWS's":    {status: 200, body: "{}"},
		"a refusal without checksum": {status: 400, body: refusal, header: id},
		"a refusal without an id":    {status: 400, body: refusal, header: sum},
		"an answer out of a cache": {status: 400, body: refusal, header: map[string]string{
			"X-Amzn-Requestid": "01A1FDBA57FD", "X-Amz-Crc32": sum["X-Amz-Crc32"], "Age": "3600",
		}},
	} {
		d, now := dynamo(t)
		*now = a
		now.ahead = 50 * time.Second
		for range 5 {
			_, _ = d.Write(t.Context(), clockUpdate())
			_, _ = d.Read(t.Context(), false, clockUpdate().Key)
		}
		if d.Offset() != 0 {
			t.Errorf("%s: offset %v", name, d.Offset())
		}
	}
}
