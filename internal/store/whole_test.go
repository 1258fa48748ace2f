package store_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

type client func(*http.Request) (*http.Response, error)

func (c client) Do(r *http.Request) (*http.Response, error) { return c(r) }

// A request reaches the client with its complete body, which the client can only read. A request
// without a body has none there.
func TestRequestsReachTheClientCompletely(t *testing.T) {
	for _, body := range []string{"", "all of it"} {
		var content io.Reader
		if body != "" {
			content = strings.NewReader(body)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", content)
		check.Must(t, err)
		_, err = store.Whole{Client: client(func(got *http.Request) (*http.Response, error) {
			check.MustEqual(t, got.Body != nil, body != "", "%q: the body is %v", body, got.Body)
			if got.Body == nil {
				return nil, nil
			}
			if _, writes := got.Body.(io.WriterTo); writes {
				t.Errorf("%q can write itself", body)
			}
			if b, err := io.ReadAll(got.Body); string(b) != body || err != nil {
				t.Errorf("%q, %v, want %q", b, err, body)
			}
			return nil, nil
		})}.Do(r)
		check.NoError(t, err)
	}
}
