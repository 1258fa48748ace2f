// Package s3 is an S3 emulator inside this process.
package s3

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Server is a running S3 with one bucket. It is safe for concurrent use.
type Server struct {
	Endpoint string // http://127.0.0.1:port
	Bucket   string

	http *http.Server

	mu     sync.Mutex
	puts   map[string]int
	inject func(Request) Fault
}

// Request is a call as the Inject hook sees it.
type Request struct {
	Method string
	Key    string // empty for calls on the bucket
	Put    int    // how often this key was put before; 0 for other methods
}

// Fault is trouble for one call. The zero value is none.
type Fault struct {
	Status int  // answer with this status; 0 is the real answer
	Apply  bool // with Status: the call takes effect all the same
	Cut    bool // cut the connection instead of answering
}

// Start opens the server on a free port of 127.0.0.1 and creates the bucket.
// Objects are kept in memory until Stop.
func Start(bucket string) (*Server, error) {
	fake := gofakes3.New(s3mem.New(), gofakes3.WithLogger(gofakes3.DiscardLog()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("S3 emulator: %w", err)
	}
	s := &Server{Endpoint: "http://" + l.Addr().String(), Bucket: bucket, puts: map[string]int{}}
	s.http = &http.Server{Handler: s.front(fake.Server())}
	go s.http.Serve(l)
	in := &s3.CreateBucketInput{Bucket: aws.String(bucket)}
	if _, err := s.Client().CreateBucket(context.Background(), in); err != nil {
		s.Stop()
		return nil, fmt.Errorf("S3 emulator: create bucket %q: %w", bucket, err)
	}
	return s, nil
}

// ForTest starts a server with a bucket of its own and stops it at the end.
func ForTest(t testing.TB) *Server {
	t.Helper()
	s, err := Start(engine.UniqueName("archive"))
	check.Must(t, err)
	t.Cleanup(s.Stop)
	return s
}

// Stop closes the server and drops the objects.
func (s *Server) Stop() { s.http.Close() }

// Inject sets the hook that is asked before each call; nil injects nothing. It
// may be called concurrently.
func (s *Server) Inject(hook func(Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inject = hook
}

// Client returns a new client; it does not retry, so that faults are seen.
func (s *Server) Client() *s3.Client {
	return s3.New(s3.Options{
		Region:       engine.Region,
		BaseEndpoint: aws.String(s.Endpoint),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(engine.AccessKeyID, engine.SecretAccessKey, ""),
		Retryer:      aws.NopRetryer{},
	})
}

// Env is the part of a child process's environment that it needs to reach the server, besides
// region and credentials, which engine.Env has.
func (s *Server) Env() []string {
	return []string{"AWS_ENDPOINT_URL_S3=" + s.Endpoint}
}

// Keys lists all objects of the bucket in order.
func (s *Server) Keys(ctx context.Context) ([]string, error) {
	var keys []string
	pages := s3.NewListObjectsV2Paginator(s.Client(), &s3.ListObjectsV2Input{Bucket: aws.String(s.Bucket)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list bucket %q: %w", s.Bucket, err)
		}
		for _, object := range page.Contents {
			keys = append(keys, aws.ToString(object.Key))
		}
	}
	return keys, nil
}

// Text returns the content of an object, unpacked.
func (s *Server) Text(ctx context.Context, key string) (string, error) {
	got, err := s.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(s.Bucket), Key: aws.String(key)})
	if err != nil {
		return "", fmt.Errorf("get object %q: %w", key, err)
	}
	defer got.Body.Close()
	var in io.Reader = got.Body
	if strings.HasSuffix(key, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return "", fmt.Errorf("object %q: %w", key, err)
		}
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return "", fmt.Errorf("object %q: %w", key, err)
	}
	return string(text), nil
}

func (s *Server) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := s.ask(r)
		switch {
		case fault.Status == 0 && !fault.Cut:
			next.ServeHTTP(w, r)
			return
		case fault.Apply:
			next.ServeHTTP(discard{http.Header{}}, r)
		}
		if fault.Cut {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(fault.Status)
		code := map[int]string{403: "AccessDenied", 404: "NoSuchBucket", 409: "ConditionalRequestConflict",
			503: "SlowDown"}[fault.Status]
		if code == "" {
			code = "InternalError"
		}
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>injected</Message></Error>", code)
	})
}

// ask counts the call and asks the hook about it.
func (s *Server) ask(r *http.Request) Fault {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != s.Bucket {
		bucket, key = "", ""
	}
	s.mu.Lock()
	request := Request{Method: r.Method, Key: key}
	if r.Method == http.MethodPut && key != "" {
		request.Put = s.puts[key]
		s.puts[key]++
	}
	hook := s.inject
	s.mu.Unlock()
	if hook == nil {
		return Fault{}
	}
	return hook(request)
}

// discard is a ResponseWriter whose reader never hears the answer.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
