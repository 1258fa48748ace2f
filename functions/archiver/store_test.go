package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const testBucket = "audit-archive"

// fault is what happens to a put of the given key.
type fault int

const (
	healthy fault = iota
	refused       // not stored, answered with 503
	lost          // stored, but the connection ends before the answer
)

// store is an in-process S3 stand-in whose puts can be made to fail.
type store struct {
	*httptest.Server
	backend *s3mem.Backend

	mu     sync.Mutex
	decide func(key string) fault // nil means healthy
	puts   []string               // keys of all puts that arrived
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{backend: s3mem.New()}
	if err := s.backend.CreateBucket(testBucket); err != nil {
		t.Fatal(err)
	}
	faker := gofakes3.New(s.backend).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := healthy
		if r.Method == http.MethodPut {
			what = s.arrived(strings.TrimPrefix(r.URL.Path, "/"+testBucket+"/"))
		}
		switch what {
		case healthy:
			faker.ServeHTTP(w, r)
		case refused:
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>`)
		case lost:
			faker.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s
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

// failing sets what happens to puts from now on and forgets those seen.
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

// object is a stored object as a reader sees it.
type object struct {
	Key, Type, Encoding, Text string
}

func (s *store) objects(t *testing.T) []object {
	t.Helper()
	client := s.client(1)
	var all []object
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: aws.String(testBucket)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(testBucket), Key: o.Key})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, object{*o.Key, aws.ToString(got.ContentType), aws.ToString(got.ContentEncoding), gunzip(t, body)})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	return all
}

func gunzip(t *testing.T, body []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// client is the client of the function, with this many attempts per put and no
// pause between them.
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

// handler is a handler on the stand-in. The metric line goes to the buffer.
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
