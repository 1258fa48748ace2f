package limiter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// When nobody listens at the table's address, the error says so after one attempt:
// trying again until the time is up would tell no more, and hide why.
func TestNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fine(t, err)
	endpoint := "http://" + ln.Addr().String()
	ln.Close()
	var dials atomic.Int64
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
			addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}},
	})
	opts, err := (&Options{Timeout: ages}).withDefaults()
	fine(t, err)
	s := store.NewDynamo(client, "table")
	l := newLimiter(s, "ns", opts)
	for name, call := range map[string]func() error{
		"open":          func() error { _, err := Open(t.Context(), client, "table", &Options{Timeout: ages}); return err },
		"stored limits": func() error { _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1})); return err },
		"limits given":  func() error { _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10)); return err },
		"write": func() error {
			_, err := s.Write(t.Context(), item.Delete{Key: item.Key{PK: "p", SK: "s"}})
			return err
		},
		"no such host":    func() error { return openAt(t, "http://no-such-host.invalid") },
		"standard client": func() error { return openAt(t, endpoint) },
	} {
		dials.Store(0)
		err := call()
		switch {
		case name == "no such host":
			if _, ok := errors.AsType[*net.DNSError](err); !ok {
				t.Errorf("%s: got %v", name, err)
			}
		case !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "connection refused"):
			t.Errorf("%s: got %v, which does not say that the connection was refused", name, err)
		}
		if name != "write" && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want unavailable", name, err)
		}
		if n := dials.Load(); n > 1 {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
}

func openAt(t *testing.T, endpoint string) error {
	_, err := Open(t.Context(), dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}), "table", &Options{Timeout: ages, OnUnavailable: PolicyAllow})
	return err
}

// A table that is not there, of which no role may read, or that no request can name:
// Open says at once that it is not set up, and where it has looked, whatever policy is
// asked for.
func TestOpenSaysWhereThereIsNoTable(t *testing.T) {
	for _, code := range []string{"ResourceNotFoundException", "AccessDeniedException", "ValidationException"} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"told"}`, code)
		}))
		err := openAt(t, server.URL)
		server.Close()
		if !errors.Is(err, ErrSetup) || asked != 1 {
			t.Errorf("%s: %v after %d calls, want ErrSetup after one", code, err, asked)
			continue
		}
		for _, want := range []string{ErrSetup.Error() + ": ", `namespace "default"`, code,
			`(table "table" in us-east-1 at ` + server.URL + ")"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\ndoes not say %s", err, want)
			}
		}
	}
}
