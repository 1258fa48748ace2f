package store_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Every answer to a write has a kind. Every write is sent once, whatever the SDK's default is.
func TestAnswersHaveTheirKind(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   store.Kind
	}{
		{"throughput exceeded", fault(400, "ProvisionedThroughputExceededException", ""), store.Throttled},
		{"throttling", fault(400, "ThrottlingException", ""), store.Throttled},
		{"request limit", fault(400, "RequestLimitExceeded", ""), store.Throttled},
		{"conflict", fault(400, "TransactionConflictException", ""), store.Conflict},
		{"transaction in progress", fault(400, "TransactionInProgressException", ""), store.Conflict},

		{"validation", fault(400, "ValidationException", ""), store.Setup},
		{"no such table", fault(400, "ResourceNotFoundException", ""), store.Setup},
		{"access denied", fault(400, "AccessDeniedException", ""), store.Setup},
		{"expired credentials", fault(400, "ExpiredTokenException", ""), store.Unavailable},
		{"unknown credentials", fault(400, "UnrecognizedClientException", ""), store.Setup},
		{"bad signature", fault(400, "InvalidSignatureException", ""), store.Setup},
		{"other token", fault(400, "IdempotentParameterMismatchException", ""), store.Unavailable},
		{"collection too large", fault(400, "ItemCollectionSizeLimitExceededException", ""), store.Unavailable},
		{"a proxy calls the request bad", reply(400, "<html>bad request</html>"), store.Unavailable},
		{"a proxy forbids it", reply(403, "<html>no</html>"), store.Unavailable},

		{"a proxy wants authentication", reply(407, ""), store.Unavailable},
		{"a proxy timed out", reply(408, "<html>timeout</html>"), store.Unknown},
		{"a proxy timed out, in JSON", reply(408, `{"message":"timeout"}`), store.Unknown},
		{"a timeout with a code", fault(408, "RequestTimeout", ""), store.Unknown},

		{"internal error", fault(500, "InternalServerError", ""), store.Unknown},
		{"service unavailable", fault(503, "ServiceUnavailable", ""), store.Unknown},
		{"500 without a body", reply(500, ""), store.Unknown},
		{"502 by a proxy", reply(502, "<html>bad gateway</html>"), store.Unknown},
		{"503 by a proxy", reply(503, "{}"), store.Unknown},
		{"504 by a proxy", reply(504, "upstream timed out"), store.Unknown},
		{"success in an unknown format", reply(200, "<html>welcome</html>"), store.Unknown},
		{"success with a truncated answer", truncate, store.Unknown},
		{"connection cut after the request", cut, store.Unknown},
	} {
		for call, do := range calls {
			t.Run(tt.name+"/"+call, func(t *testing.T) {
				s := serve(t, tt.answer)
				err := do(t.Context(), open(s.URL))
				check.Equal(t, store.KindOf(err), tt.want, "%v", err)
				check.Equal(t, s.requests.Load(), 1, "requests for one write")
				if f, ok := errors.AsType[*store.Failure](err); !ok || f.Op != operations[call] {
					t.Errorf("error is %v, want it to say %s", err, operations[call])
				}
			})
		}
	}
}

// Without a connection nothing was sent.
func TestFailedConnectionsSendNothing(t *testing.T) {
	dial := func(err error) func(*dynamodb.Options) {
		return func(o *dynamodb.Options) {
			o.HTTPClient = &http.Client{Transport: &http.Transport{
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
				},
			}}
		}
	}
	for call, do := range calls {
		for name, db := range map[string]store.Store{
			"no server listens": open("http://" + check.Refusing(t)),
			"no such host":      open("http://db", dial(&net.DNSError{Err: "no such host", IsNotFound: true})),
			"no answer":         open("http://db", dial(os.ErrDeadlineExceeded)),
			"dead proxy": open("http://db", func(o *dynamodb.Options) {
				proxy, _ := url.Parse("http://" + check.Refusing(t))
				o.HTTPClient = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
			}),
		} {
			if err := do(t.Context(), db); store.KindOf(err) != store.Unavailable {
				t.Errorf("%s: %s: error is %v, want unavailable", call, name, err)
			}
		}
	}
}

// tardy is a context whose deadline passes when over is closed, not by a clock.
type tardy struct {
	context.Context
	over chan struct{}
}

func (l tardy) Done() <-chan struct{} { return l.over }

func (l tardy) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A context that ends before the call prevents it. If it ends during the call, the result is
// unknown.
func TestContextsEnd(t *testing.T) {
	for call, do := range calls {
		t.Run(call, func(t *testing.T) {
			arrived, done := make(chan bool, 1), make(chan bool)
			s := serve(t, func(http.ResponseWriter, *http.Request) { arrived <- true; <-done })
			defer close(done)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-arrived; cancel() }()
			if err := do(ctx, open(s.URL)); store.KindOf(err) != store.Unknown || !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled during the call: error is %v, want unknown and cancelled", err)
			}
			if err := do(ctx, open(s.URL)); store.KindOf(err) != store.Unavailable || !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled before the call: error is %v, want unavailable and cancelled", err)
			}
			check.Equal(t, s.requests.Load(), 1, "requests, want one")
			late := tardy{t.Context(), make(chan struct{})}
			go func() { <-arrived; close(late.over) }()
			if err := do(late, open(s.URL)); store.KindOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("time ran out during the call: error is %v, want unknown and deadline exceeded", err)
			}
		})
	}
}

const oldItem = `{"PK":{"S":"p"},"SK":{"S":"s"},"n":{"N":"7"}}`

// A refused condition returns the item as it was.
func TestRefusalsReturnTheItem(t *testing.T) {
	for _, tt := range []struct {
		more string
		want item.Item
	}{
		{`,"Item":` + oldItem, item.Item{"PK": item.S("p"), "SK": item.S("s"), "n": item.N(7)}},
		{"", nil},
	} {
		s := serve(t, fault(400, "ConditionalCheckFailedException", tt.more))
		_, err := open(s.URL).Write(t.Context(), update())
		r, ok := errors.AsType[*store.Refused](err)
		if !ok || !item.EqualItems(r.Old, tt.want) || (r.Old == nil) != (tt.want == nil) {
			t.Errorf("error is %#v, want a refusal with item %v", err, tt.want)
		}
		check.Equal(t, store.KindOf(err), 0, "a refusal is a failure of kind")
	}
}

// The reasons of a canceled transaction determine its kind. A refusal wins. A conflict or
// throttling is worth a retry, other reasons are not.
func TestReasonsDetermineTheKindOfATransaction(t *testing.T) {
	const (
		none     = `{"Code":"None"}`
		refused  = `{"Code":"ConditionalCheckFailed","Item":` + oldItem + `}`
		conflict = `{"Code":"TransactionConflict"}`
	)
	for _, tt := range []struct {
		reasons string
		want    store.Kind // 0: refused
	}{
		{none + "," + refused, 0},
		{conflict + "," + refused, 0},
		{`{"Code":"ValidationError"},` + refused, 0},
		{none + "," + conflict, store.Conflict},
		{`{"Code":"ThrottlingError"},` + none, store.Throttled},
		{`{"Code":"ProvisionedThroughputExceeded"},` + none, store.Throttled},
		{`{"Code":"ThrottlingError"},` + conflict, store.Conflict},
		{`{"Code":"ValidationError"},` + none, store.Setup},
		{`{"Code":"ItemCollectionSizeLimitExceeded"},` + none, store.Unavailable},
		{`{"Code":"AccessDenied"},` + none, store.Setup},
		{none + "," + none, store.Unavailable},
		{"", store.Unavailable},
	} {
		s := serve(t, fault(400, "TransactionCanceledException", `,"CancellationReasons":[`+tt.reasons+`]`))
		err := open(s.URL).Transact(t.Context(), "token", []item.Write{item.Check{Key: key, If: item.Exists("x")}, update()})
		check.Equal(t, store.KindOf(err), tt.want, "%s: %v", tt.reasons, err)
		if tt.want != 0 && !strings.HasPrefix(err.Error(), "TransactWriteItems: "+tt.want.String()+": ") {
			t.Errorf("%s: error is %v, want the name of the operation", tt.reasons, err)
		}
		c, ok := errors.AsType[*store.Canceled](err)
		check.Equal(t, ok, tt.want == 0, "%s: error is %v, refused", tt.reasons, err)
		if ok && (len(c.Reasons) != 2 || c.Reasons[0].Refused || !c.Reasons[1].Refused || c.Reasons[1].Old["n"] == nil) {
			t.Errorf("%s: reasons are %+v", tt.reasons, c.Reasons)
		}
	}
}

func TestInvalidCallsAreNotSent(t *testing.T) {
	s := serve(t, reply(200, "{}"))
	db := openListing(s.URL)
	_, err := db.Write(t.Context(), item.Check{Key: key, If: item.Exists("x")})
	check.Equal(t, store.KindOf(err), store.Unavailable, "check outside a transaction: error is %v", err)
	for _, token := range []string{"", "0123456789012345678901234567890123456"} {
		if err := db.Transact(t.Context(), token, []item.Write{update()}); store.KindOf(err) != store.Unavailable {
			t.Errorf("token %q: error is %v", token, err)
		}
	}
	if _, err := db.List(t.Context(), item.Query{}); store.KindOf(err) != store.Unavailable {
		t.Errorf("an empty query: error is %v", err)
	}
	if items, err := db.Read(t.Context(), false); items != nil || err != nil {
		t.Errorf("no keys: %v, %v", items, err)
	}
	check.Equal(t, s.requests.Load(), 0, "requests, want none")
}

// A connection that the server closed while idle is replaced, without a second request to the
// server.
func TestIdleConnectionsMayEnd(t *testing.T) {
	s := serve(t, reply(200, `{"Attributes":`+oldItem+`}`))
	db := open(s.URL)
	for range 5 {
		if _, err := db.Write(t.Context(), update()); err != nil && store.KindOf(err) != store.Unknown {
			t.Errorf("error is %v", err)
		}
		s.CloseClientConnections()
	}
	if n := s.requests.Load(); n > 5 {
		t.Errorf("%d requests for 5 writes", n)
	}
}

// Without a name in DNS, or with a refused connection, nothing was sent. If a name server does not
// answer, the result is unknown.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&net.DNSError{IsNotFound: true}, true}, {&net.DNSError{IsTimeout: true}, false},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{&net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, false}, {errors.New("x"), false}, {nil, false},
	} {
		check.Equal(t, store.Unreachable(c.err), c.want, "%v", c.err)
	}
}
