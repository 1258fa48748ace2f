package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

const testBucket = "audit-archive"

// fault is a fault of a put.
type fault int

const (
	healthy fault = iota
	refused       // not stored, answered with 503
	lost          // stored, but the connection ends before the answer
	met           // not stored, answered with 409: another put of the key is under way
)

// store is an in-process substitute for the part of S3 that the archiver uses: PutObject,
// unconditional or only if the object is new. Its puts can be made to fail. The end-to-end tests
// run the built function on a complete S3 emulator.
type store struct {
	*httptest.Server

	mu     sync.Mutex
	stored map[string]object      // by key
	decide func(key string) fault // nil means healthy
	puts   []string               // keys of all puts that arrived
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{stored: map[string]object{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	key, ok := strings.CutPrefix(r.URL.Path, "/"+testBucket+"/")
	if r.Method != http.MethodPut || !ok {
		http.Error(w, "no put of an object: "+r.Method+" "+r.URL.Path, http.StatusNotImplemented)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left before it had sent everything
	}
	switch s.arrived(key) {
	case healthy:
		s.put(w, key, body, r.Header)
	case refused:
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case met:
		refuse(w, http.StatusConflict, "ConditionalRequestConflict")
	case lost:
		s.put(httptest.NewRecorder(), key, body, r.Header)
		panic(http.ErrAbortHandler)
	}
}

// put stores an object. With If-None-Match "*", the object must not exist.
func (s *store) put(w http.ResponseWriter, key string, body []byte, h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.stored[key]; ok && h.Get("If-None-Match") == "*" {
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	s.stored[key] = object{key, h.Get("Content-Type"), h.Get("Content-Encoding"), string(body)}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>refused by the test</Message></Error>")
}

func (s *store) arrived(key string) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts = append(s.puts, key)
	if s.decide == nil {
		return healthy
	}
	return s.decide(key)
}

// failing sets the faults of puts from now on, and forgets earlier puts.
func (s *store) failing(decide func(key string) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide, s.puts = decide, nil
}

func (s *store) putCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.puts)
}

// object is a stored object as read.
type object struct {
	Key, Type, Encoding, Text string
}

// objects returns the stored objects, sorted by key.
func (s *store) objects(t *testing.T) []object {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []object
	for _, key := range slices.Sorted(maps.Keys(s.stored)) {
		o := s.stored[key]
		o.Text = gunzip(t, []byte(o.Text))
		all = append(all, o)
	}
	return all
}

func gunzip(t *testing.T, body []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	check.Must(t, err)
	text, err := io.ReadAll(r)
	check.Must(t, err)
	return string(text)
}

// client returns the function's client, with this many attempts per put and no pauses.
func (s *store) client(attempts int) *s3.Client {
	return newClient(aws.Config{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(s.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("key", "secret", ""),
		HTTPClient:   s.Server.Client(),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = attempts
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	})
}

// handler returns a handler on the store. The metric line goes to the buffer.
func (s *store) handler(t *testing.T, attempts int) (*handler, *bytes.Buffer) {
	var metrics bytes.Buffer
	return &handler{
		store:    s.client(attempts),
		bucket:   testBucket,
		function: "archiver",
		log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		metrics:  &metrics,
	}, &metrics
}
