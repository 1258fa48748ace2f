package store_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// lateWriter is an HTTP client that sends requests at once, but reports the end of writing only
// when the SDK begins to read the answer, like a machine that is too busy for the writing
// goroutine. wrote gets the result of writing.
type lateWriter struct {
	http.Client
	reading, wrote chan error
}

func newLateWriter() *lateWriter {
	c := &lateWriter{reading: make(chan error), wrote: make(chan error, 1)}
	c.Transport = &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return lateConn{conn, c.reading}, err
	}}
	return c
}

func (c *lateWriter) Do(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) { c.wrote <- i.Err }}
	answer, err := c.Client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil {
		answer.Body = &lateBody{ReadCloser: answer.Body, first: sync.OnceFunc(func() {
			c.reading <- nil
			c.wrote <- <-c.wrote
		})}
	}
	return answer, err
}

type lateConn struct {
	net.Conn
	reading <-chan error
}

func (c lateConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if bytes.HasSuffix(p, []byte("}")) { // the end of the request
		<-c.reading
	}
	return n, err
}

type lateBody struct {
	io.ReadCloser
	first func()
}

func (b *lateBody) Read(p []byte) (int, error) {
	b.first()
	return b.ReadCloser.Read(p)
}

// An answer that arrives before the request is written is read completely, and the connection is
// kept.
func TestEarlyAnswersAreReadCompletely(t *testing.T) {
	for call, do := range allCalls() {
		t.Run(call, func(t *testing.T) {
			s := serve(t, reply(200, "{}"))
			late := newLateWriter()
			db := openListing(s.URL, func(o *dynamodb.Options) { o.HTTPClient, o.Retryer = late, aws.NopRetryer{} })
			check.NoError(t, do(t.Context(), db))
			check.NoError(t, <-late.wrote, "the connection was dropped")
		})
	}
}
