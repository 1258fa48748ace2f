package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// allCalls are all calls of a store, including reads.
func allCalls() map[string]func(context.Context, *store.Listing) error {
	all := map[string]func(context.Context, *store.Listing) error{
		"read":   func(ctx context.Context, s *store.Listing) error { _, err := s.Read(ctx, true, key); return err },
		"remove": func(ctx context.Context, s *store.Listing) error { return s.Remove(ctx, key) },
		"list": func(ctx context.Context, s *store.Listing) error {
			_, err := s.List(ctx, item.Query{PK: "p"})
			return err
		},
	}
	for call, do := range calls {
		all[call] = func(ctx context.Context, s *store.Listing) error { return do(ctx, s) }
	}
	return all
}

// signatures is a server that checks the time of a signature like AWS, by a clock ahead of this
// machine's.
type signatures struct {
	*server
	ahead atomic.Int64
}

func checkSignatures(t *testing.T, code string) *signatures {
	s := &signatures{}
	s.server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(time.Duration(s.ahead.Load())).UTC()
		w.Header().Set("Date", now.Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || now.Sub(signed).Abs() > 5*time.Minute {
			fault(http.StatusBadRequest, code, "")(w, r)
			return
		}
		reply(http.StatusOK, "{}")(w, r)
	})
	return s
}

// A clock is set during calls: to the future, to the past, and back. Each rejected signature is
// made again, once.
func TestRejectedSignaturesAreMadeAgainOnce(t *testing.T) {
	for _, code := range []string{"InvalidSignatureException", "RequestTimeTooSkewed", "AccessDeniedException"} {
		for call, do := range allCalls() {
			t.Run(code+"/"+call, func(t *testing.T) {
				s := checkSignatures(t, code)
				db := openListing(s.URL, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
				for _, ahead := range []time.Duration{0, time.Hour, 0, -time.Hour, -time.Hour} {
					s.ahead.Store(int64(ahead))
					var all sync.WaitGroup
					for range 20 {
						all.Go(func() {
							check.NoError(t, do(t.Context(), db), "off by %v", ahead)
						})
					}
					all.Wait()
				}
			})
		}
	}
}

// If the correction does not help, because a clock is set repeatedly, a call is sent twice, and
// then the failure policy decides. A wrong signature with a right clock means wrong credentials,
// and nothing is sent again.
func TestWrongSignaturesAreNotRepeatedForever(t *testing.T) {
	for _, c := range []struct {
		code  string
		ahead time.Duration // further ahead with each request
		want  store.Kind
		sent  int64
	}{
		{"InvalidSignatureException", time.Hour, store.Unavailable, 2},
		{"RequestTimeTooSkewed", time.Hour, store.Unavailable, 2},
		{"AccessDeniedException", time.Hour, store.Unavailable, 2},
		{"InvalidSignatureException", 0, store.Setup, 1},
	} {
		for call, do := range allCalls() {
			ahead := time.Duration(0)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				ahead += c.ahead
				w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
				fault(http.StatusForbidden, c.code, "")(w, r)
			})
			err := do(t.Context(), openListing(s.URL, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }))
			if n := s.requests.Load(); store.KindOf(err) != c.want || n != c.sent {
				t.Errorf("%s/%s, ahead by %v: %v after %d requests, want %v after %d",
					c.code, call, c.ahead, err, n, c.want, c.sent)
			}
		}
	}
}

// expiring answers a first call with an error that blames a clock, and may end the caller's
// context.
type expiring struct {
	store.API
	code  string
	leave context.CancelFunc
	calls int
}

func (e *expiring) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (
	*dynamodb.UpdateItemOutput, error) {
	if e.calls++; e.calls > 1 {
		return &dynamodb.UpdateItemOutput{}, nil
	}
	if e.leave != nil {
		e.leave()
	}
	return nil, fmt.Errorf("wrapped: %w", &smithy.GenericAPIError{Code: e.code})
}

// Some codes blame a clock by themselves. If the caller has left, there is no second call, and
// nothing was written.
func TestSomeCodesBlameAClock(t *testing.T) {
	for _, code := range []string{"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"} {
		api := &expiring{code: code}
		if _, err := store.NewDynamo(api, "table").Write(t.Context(), update()); err != nil || api.calls != 2 {
			t.Errorf("%s: %v after %d calls", code, err, api.calls)
		}
		ctx, leave := context.WithCancel(t.Context())
		api = &expiring{code: code, leave: leave}
		_, err := store.NewDynamo(api, "table").Write(ctx, update())
		if _, ok := errors.AsType[smithy.APIError](err); !ok || store.KindOf(err) != store.Unavailable || api.calls != 1 {
			t.Errorf("%s: a caller that has left: %v after %d calls", code, err, api.calls)
		}
	}
}
