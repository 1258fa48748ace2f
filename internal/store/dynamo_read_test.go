package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Keys that DynamoDB leaves unprocessed are requested again, and only those.
func TestUnprocessedKeysAreReadAgain(t *testing.T) {
	s := serve(t, reply(200, `{"Responses":{"table":[{"PK":{"S":"b"},"SK":{"S":"s"}}]},
		"UnprocessedKeys":{"table":{"Keys":[{"PK":{"S":"a"},"SK":{"S":"s"}}]}}}`),
		reply(200, `{"Responses":{"table":[{"PK":{"S":"a"},"SK":{"S":"s"}}]}}`))
	a, b, c := item.Key{PK: "a", SK: "s"}, item.Key{PK: "b", SK: "s"}, item.Key{PK: "c", SK: "s"}
	items, err := open(s.URL).Read(t.Context(), true, a, b, c, a)
	check.Must(t, err)
	check.MustEqual(t, len(items), 4, "items %v", items)
	for i, want := range []item.Item{a.Item(), b.Item(), nil, a.Item()} {
		if !item.EqualItems(items[i], want) {
			t.Errorf("item %d is %v, want %v", i, items[i], want)
		}
	}
	check.Equal(t, s.requests.Load(), 2, "requests")
}

// plain is a client's own retryer of the older kind, and limited is one of the newer kind. Both
// want three attempts for any error.
type plain struct{ aws.Retryer }

func (plain) MaxAttempts() int                             { return 3 }
func (plain) IsErrorRetryable(error) bool                  { return true }
func (plain) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

type limited struct {
	plain
	asked *int
}

func (l limited) GetAttemptToken(context.Context) (func(error) error, error) {
	*l.asked++
	return func(error) error { return nil }, nil
}

// A read is repeated as the client's own retryer says, with its permission for each attempt.
// Without a server, one attempt is enough.
func TestReadsUseTheClientsRetryer(t *testing.T) {
	failing := serve(t, fault(400, "ValidationException", ""))
	asked := 0
	for name, r := range map[string]aws.Retryer{"plain": plain{aws.NopRetryer{}},
		"limited": limited{plain{aws.NopRetryer{}}, &asked}} {
		use := func(o *dynamodb.Options) { o.Retryer = r }
		before := failing.requests.Load()
		open(failing.URL, use).Read(t.Context(), true, key)
		check.Equal(t, failing.requests.Load()-before, 3, "%s: requests", name)
		var dials atomic.Int64
		nobody := func(o *dynamodb.Options) {
			o.HTTPClient = &http.Client{Transport: &http.Transport{
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					dials.Add(1)
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				},
			}}
		}
		open("http://db", use, nobody).Read(t.Context(), true, key)
		check.Equal(t, dials.Load(), 1, "%s: attempts without a server", name)
	}
	check.Equal(t, asked, 3+1, "attempts with permission, of 4")
}

// If DynamoDB rejects a read because the table or permissions are missing, that is a matter of
// setup, as for a write. The first call is a read, so it reports such errors. The SDK repeats reads
// that fail or are slowed down. After that they are unavailable or throttled, by the table's
// answer.
func TestFailedReadsHaveTheirKind(t *testing.T) {
	for _, c := range []struct {
		status   int
		code     string
		want     store.Kind
		repeated bool
	}{
		{400, "ResourceNotFoundException", store.Setup, false},
		{400, "AccessDeniedException", store.Setup, false},
		{400, "UnrecognizedClientException", store.Setup, false},
		{500, "InternalServerError", store.Unavailable, true},
		{400, "ProvisionedThroughputExceededException", store.Throttled, true},
	} {
		for call, op := range map[string]string{"read": "BatchGetItem", "list": "Query"} {
			s := serve(t, fault(c.status, c.code, ""))
			err := allCalls()[call](t.Context(), openListing(s.URL))
			if store.KindOf(err) != c.want || !strings.HasPrefix(err.Error(), op+": "+c.want.String()+": ") {
				t.Errorf("%s: %s: %v, want %v", c.code, call, err, c.want)
			}
			if n := s.requests.Load(); (n > 1) != c.repeated {
				t.Errorf("%s: %s: %d requests, repeated is %t", c.code, call, n, c.repeated)
			}
		}
	}
}

// hungry leaves every key unprocessed, and records how many it got.
type hungry struct {
	store.API
	asked *[]int
}

func (h hungry) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for _, f := range opts {
		f(&dynamodb.Options{}) // it is not a client of the SDK, and has no options
	}
	*h.asked = append(*h.asked, len(in.RequestItems["table"].Keys))
	return &dynamodb.BatchGetItemOutput{UnprocessedKeys: in.RequestItems}, nil
}

func TestReadsWithUnprocessedKeysAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		other := item.Key{PK: "q", SK: "s"}
		_, err := store.NewDynamo(hungry{asked: &asked}, "table").Read(t.Context(), true, key, other, key)
		if store.KindOf(err) != store.Throttled || errors.Unwrap(err) == nil {
			t.Errorf("unprocessed: %v, want throttled, and why", err)
		}
		if fmt.Sprint(asked) != "[2 2 2 2 2 2 2 2]" { // each key once, eight times
			t.Errorf("asked for %v", asked)
		}
	})
}

// A read that is slowed down ends with its context, and returns nothing.
func TestReadsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		items, err := store.NewDynamo(hungry{asked: new([]int)}, "table").Read(ctx, true, key)
		if store.KindOf(err) != store.Unavailable || !errors.Is(err, context.DeadlineExceeded) || items != nil {
			t.Errorf("%v, error %v", items, err)
		}
	})
}

func TestRetriesRepeatOnlyUnwrittenCalls(t *testing.T) {
	for _, tt := range []struct {
		kind  store.Kind
		calls int
	}{{0, 1}, {store.Throttled, 4}, {store.Conflict, 4}, {store.Unavailable, 1}, {store.Unknown, 1}} {
		calls := 0
		err := store.Retry(t.Context(), 4, time.Microsecond, func() error {
			calls++
			if tt.kind == 0 {
				return nil
			}
			return &store.Failure{Kind: tt.kind, Op: "test", Err: errors.New("told")}
		})
		if calls != tt.calls || store.KindOf(err) != tt.kind {
			t.Errorf("%v: %d calls, error %v, want %d calls", tt.kind, calls, err, tt.calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := store.Retry(ctx, 100, time.Hour, func() error {
		calls++
		cancel()
		return fmt.Errorf("wrapped: %w", &store.Failure{Kind: store.Throttled, Err: errors.New("told")})
	})
	if calls != 1 || store.KindOf(err) != store.Throttled {
		t.Errorf("cancelled: %d calls, error %v, want one call and its error", calls, err)
	}
}

func TestJitterStaysInBounds(t *testing.T) {
	for try := range 70 {
		for range 20 {
			if d := store.Jitter(try, time.Millisecond, time.Second); d < 0 ||
				d > min(time.Second, time.Millisecond<<min(try, 20)) {
				t.Fatalf("pause before attempt %d is %v", try+1, d)
			}
		}
	}
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[store.Jitter(0, 1, time.Second)] = true
	}
	if !seen[0] || !seen[1] || len(seen) != 2 {
		t.Errorf("100 pauses of at most 1ns were %v", seen)
	}
	check.Equal(t, store.Jitter(3, 0, time.Second), 0, "without a pause to double")
}
