package store_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// server is an HTTP server that counts its requests, and records what they ask.
type server struct {
	*httptest.Server
	requests atomic.Int64
	mu       sync.Mutex
	asked    []string // the operation and the body of each request
}

// serve answers the requests with the answers in order, and all further ones with the last.
func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Get("X-Amz-Target")+" "+string(body))
		s.mu.Unlock()
		answers[min(int(n), len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// openListing opens the store at an endpoint with the SDK's defaults, including its retries without
// their pauses, because the store has to turn them off.
func openListing(endpoint string, change ...func(*dynamodb.Options)) *store.Listing {
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: &http.Transport{}},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer:     func() aws.Retryer { return retry.AddWithMaxBackoffDelay(retry.NewStandard(), time.Nanosecond) },
	}
	return store.NewListing(dynamodb.NewFromConfig(cfg, change...), "table")
}

func open(endpoint string, change ...func(*dynamodb.Options)) *store.Dynamo {
	return openListing(endpoint, change...).Dynamo
}

// reply answers with a status and a body, and DynamoDB's checksum.
func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amz-Crc32", checksum(body))
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func checksum(body string) string { return fmt.Sprint(crc32.ChecksumIEEE([]byte(body))) }

// fault answers with an error of DynamoDB.
func fault(status int, code, more string) http.HandlerFunc {
	return reply(status, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"told"%s}`, code, more))
}

// cut reads the request and closes the connection without an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // reset the connection
	}
	conn.Close()
}

// truncate sends only the beginning of an answer.
func truncate(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "1000")
	io.WriteString(w, `{"Attributes":{`)
	w.(http.Flusher).Flush()
	cut(w, r)
}

var key = item.Key{PK: "p", SK: "s"}

func update() item.Update {
	return item.Update{Key: key, Add: []item.Attr{{Name: "n", Value: item.N(1)}}}
}

// calls are all kinds of writes.
var calls = map[string]func(context.Context, store.Store) error{
	"update": func(ctx context.Context, s store.Store) error { _, err := s.Write(ctx, update()); return err },
	"put": func(ctx context.Context, s store.Store) error {
		_, err := s.Write(ctx, item.Put{Item: key.Item()})
		return err
	},
	"delete": func(ctx context.Context, s store.Store) error {
		_, err := s.Write(ctx, item.Delete{Key: key})
		return err
	},
	"transact": func(ctx context.Context, s store.Store) error {
		return s.Transact(ctx, "token", []item.Write{update()})
	},
}

// operations are the API names of calls.
var operations = map[string]string{
	"update": "UpdateItem", "put": "PutItem", "delete": "DeleteItem", "transact": "TransactWriteItems",
}
