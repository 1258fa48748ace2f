package store

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

func TestClockOffset(t *testing.T) {
	server := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return server.Add(d) }
	for _, c := range []struct {
		name           string
		sent, received time.Duration // of the local clock, from what the server said
		want           time.Duration
	}{
		{"agrees", 100 * time.Millisecond, 110 * time.Millisecond, 0},
		{"the second was nearly over", 999 * time.Millisecond, 1050 * time.Millisecond, 0},
		{"turned while under way", -20 * time.Millisecond, 5 * time.Millisecond, 0},
		{"a slow answer may hide anything", -time.Hour, time.Hour, 0},
		{"ahead by an hour", time.Hour, time.Hour + 10*time.Millisecond, time.Second - time.Hour},
		{"behind by an hour", -time.Hour - 10*time.Millisecond, -time.Hour, time.Hour},
		{"just ahead", 1001 * time.Millisecond, 1010 * time.Millisecond, -time.Millisecond},
		{"just behind", -10 * time.Millisecond, -time.Millisecond, time.Millisecond},
	} {
		if got := clockOffset(server, at(c.sent), at(c.received)); got != c.want {
			t.Errorf("%s: offset %v, want %v", c.name, got, c.want)
		}
	}
}

// Both a granted and a refused write tell the server's time, as do reads; an
// answer without it leaves what is known.
func TestAnswersTellTheTime(t *testing.T) {
	date, status, body := "", 200, "{}"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil // the server's own
		if date != "" {
			w.Header().Set("Date", date)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	d := NewDynamo(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
	}), "t")
	say := func(offset time.Duration) { date = time.Now().Add(offset).UTC().Format(http.TimeFormat) }
	near := func(want time.Duration) {
		t.Helper()
		if got := d.Offset(); got < want-2*time.Second || got > want+2*time.Second {
			t.Errorf("offset %v, want about %v", got, want)
		}
	}
	update := item.Update{Key: item.Key{PK: "p", SK: "s"}, Set: []item.Attr{{Name: "a", Value: item.N(1)}}}

	if near(0); d.Offset() != 0 {
		t.Errorf("offset %v before any answer", d.Offset())
	}
	say(time.Hour)
	if _, err := d.Write(context.Background(), update); err != nil {
		t.Fatal(err)
	}
	near(time.Hour)

	say(-2 * time.Hour)
	status, body = 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no"}`
	if _, err := d.Write(context.Background(), update); !errors.As(err, new(*Refused)) {
		t.Fatal(err)
	}
	near(-2 * time.Hour)

	date = ""
	if _, err := d.Write(context.Background(), update); err == nil {
		t.Fatal("not refused")
	}
	near(-2 * time.Hour)

	say(0)
	status, body = 200, `{"Responses":{"t":[]}}`
	if _, err := d.Read(context.Background(), false, update.Key); err != nil {
		t.Fatal(err)
	}
	if d.Offset() != 0 {
		t.Errorf("offset %v although the clocks agree", d.Offset())
	}
}
