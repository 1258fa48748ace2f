package store

import (
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Whole is an HTTP client for the SDK that receives responses completely even if they begin before
// net/http has sent the whole request. The SDK closes the body of a request when the response
// begins. Its WriteTo then returns io.EOF, which net/http takes for a failure to send: it closes
// the connection, and truncates responses of more than 4 KB. Its Read returns io.EOF as a normal
// end, so Whole exposes only Read.
type Whole struct{ Client aws.HTTPClient }

// Do sends the request.
func (c Whole) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.Client.Do(r)
}

func whole(o *dynamodb.Options) {
	if o.HTTPClient != nil {
		o.HTTPClient = Whole{o.HTTPClient}
	}
}
