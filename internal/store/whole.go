package store

import (
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Whole is an HTTP client for the SDK that gets answers to their end even if they
// begin before net/http has seen the end of the request. The SDK closes the body of a
// request when the answer begins. Its WriteTo then says io.EOF, which net/http takes
// for a failure to send: it closes the connection, and cuts off an answer of more than
// 4 KB. Its Read says the same as the plain end that it is, so Whole leaves only that.
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
