// Package s3 is an S3 emulator inside this process.
package s3

import (
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// Server is a running S3 with one bucket, behind a proxy that can inject faults. It is safe for
// concurrent use.
type Server struct {
	*fault.Proxy
	Bucket string

	http *http.Server
}

// Start opens the server on a free port of 127.0.0.1 and creates the bucket.
// Objects are kept in memory until Stop.
func Start(bucket string) (*Server, error) {
	fake := gofakes3.New(s3mem.New(), gofakes3.WithLogger(gofakes3.DiscardLog()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("S3 emulator: %w", err)
	}
	s := &Server{Bucket: bucket, http: &http.Server{Handler: fake.Server()}}
	go s.http.Serve(l)
	if s.Proxy, err = fault.Start("http://"+l.Addr().String(), 1); err != nil {
		s.http.Close()
		return nil, err
	}
	in := &s3.CreateBucketInput{Bucket: aws.String(bucket)}
	if _, err := s.Client().CreateBucket(context.Background(), in); err != nil {
		s.Stop()
		return nil, fmt.Errorf("S3 emulator: create bucket %q: %w", bucket, err)
	}
	return s, nil
}

// ForTest starts a server with a new bucket and stops it when the test ends.
func ForTest(t testing.TB) *Server {
	t.Helper()
	s, err := Start(engine.UniqueName("archive"))
	check.Must(t, err)
	t.Cleanup(s.Stop)
	return s
}

// Stop closes the server and drops the objects.
func (s *Server) Stop() {
	s.Proxy.Stop()
	s.http.Close()
}

// Client returns a new client. It does not retry, so faults are visible.
func (s *Server) Client() *s3.Client {
	return s3.New(s3.Options{
		Region:       engine.Region,
		BaseEndpoint: aws.String(s.Endpoint),
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(engine.AccessKeyID, engine.SecretAccessKey, ""),
		Retryer:      aws.NopRetryer{},
	})
}

// Env returns the variables with which a child process reaches the server, besides region and
// credentials, which engine.Env has.
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

// Text returns the decompressed content of an object.
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

// Failed is an error response of S3.
func Failed(status int) *fault.Answer {
	code := cmp.Or(map[int]string{403: "AccessDenied", 404: "NoSuchBucket", 409: "ConditionalRequestConflict",
		503: "SlowDown"}[status], "InternalError")
	return &fault.Answer{Status: status,
		Body: fmt.Appendf(nil, "<Error><Code>%s</Code><Message>injected</Message></Error>", code)}
}
