package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// server is the health service, as one that is limited: Check is a unary call, Watch
// a stream.
type server struct {
	health.UnimplementedHealthServer
	do func(context.Context) error
}

func (s *server) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, s.do(ctx)
}

func (s *server) Watch(_ *health.HealthCheckRequest,
	out grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	for range 3 {
		if err := out.Send(&health.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	return s.do(out.Context())
}

// rig is a limited server, and a client of it over a connection in memory.
type rig struct {
	table  *limitertest.Table
	client health.HealthClient
	ended  chan struct{} // a value for every call that the interceptor has let go of
}

func newRig(t *testing.T, o grpclimit.Options, do func(context.Context) error) *rig {
	r := &rig{table: limitertest.New(t), ended: make(chan struct{}, 100)}
	if o.Request == nil {
		o.Request = request
	}
	l := r.table.Limiter(nil)
	unary, stream := grpclimit.Unary(l, o), grpclimit.Stream(l, o)
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, m any, i *grpc.UnaryServerInfo,
			h grpc.UnaryHandler) (_ any, err error) {
			defer func() { r.ended <- struct{}{} }()
			defer recovered(&err)
			return unary(ctx, m, i, h)
		}),
		grpc.StreamInterceptor(func(s any, ss grpc.ServerStream, i *grpc.StreamServerInfo,
			h grpc.StreamHandler) (err error) {
			defer func() { r.ended <- struct{}{} }()
			defer recovered(&err)
			return stream(s, ss, i, h)
		}),
	)
	health.RegisterHealthServer(srv, &server{do: do})
	lis := bufconn.Listen(1 << 16)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.client = health.NewHealthClient(conn)
	return r
}

// recovered is what servers put around everything else.
func recovered(err *error) {
	if recover() != nil {
		*err = status.Error(codes.Internal, "panic")
	}
}

func fine(context.Context) error { return nil }

func request(ctx context.Context, _ grpclimit.Call) (limiter.Request, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get("key")) == 0 {
		return limiter.Request{}, status.Error(codes.Unauthenticated, "no key")
	}
	return limiter.Request{
		Entity: md.Get("key")[0], Resource: "api", Costs: limiter.Costs{"rpm": 1, "tpm": 10},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 2), limiter.PerMinute("tpm", 100)},
	}, nil
}

func (r *rig) check(ctx context.Context, key string) error {
	_, err := r.client.Check(metadata.AppendToOutgoingContext(ctx, "key", key), &health.HealthCheckRequest{})
	<-r.ended
	return err
}

func (r *rig) watch(ctx context.Context, key string) (messages int, err error) {
	in, err := r.client.Watch(metadata.AppendToOutgoingContext(ctx, "key", key), &health.HealthCheckRequest{})
	for ; err == nil; messages++ {
		_, err = in.Recv()
	}
	<-r.ended
	return messages - 1, err
}

// left returns what the buckets of a key hold.
func (r *rig) left(t *testing.T, key string) [2]int64 {
	t.Helper()
	b, err := r.table.Admin("").Peek(t.Context(), key, "api")
	check.Must(t, err)
	return [2]int64{b[0].Levels[0].Remaining, b[0].Levels[1].Remaining}
}

func wantDenied(t *testing.T, err error, entity string, wait time.Duration) {
	t.Helper()
	s := status.Convert(err)
	check.MustEqual(t, s.Code(), codes.ResourceExhausted, "error %v", err)
	if got, ok := grpclimit.RetryAfter(err); !ok || got != wait {
		t.Errorf("retry after %v %v, want %v", got, ok, wait)
	}
	var quota *errdetails.QuotaFailure
	for _, d := range s.Details() {
		if q, ok := d.(*errdetails.QuotaFailure); ok {
			quota = q
		}
	}
	if v := quota.GetViolations(); len(v) != 1 || v[0].Subject != "entity:"+entity || v[0].QuotaMetric != "rpm" ||
		v[0].QuotaValue != 2 || v[0].QuotaDimensions["resource"] != "api" ||
		v[0].Description != "limit rpm: 0 left of 2, retry after 30s" {
		t.Errorf("violations %v", v)
	}
}

func TestUnaryIsDeniedWithDetails(t *testing.T) {
	r := newRig(t, grpclimit.Options{}, fine)
	for range 2 {
		check.Must(t, r.check(t.Context(), "a"))
	}
	wantDenied(t, r.check(t.Context(), "a"), "a", 30*time.Second)
	r.table.Advance(30 * time.Second)
	check.NoError(t, r.check(t.Context(), "a"), "after the wait")
}

func TestStreamIsDeniedWithDetails(t *testing.T) {
	r := newRig(t, grpclimit.Options{}, fine)
	for range 2 {
		if n, err := r.watch(t.Context(), "a"); n != 3 || status.Code(err) != codes.Unknown { // io.EOF
			t.Fatal(n, err)
		}
	}
	n, err := r.watch(t.Context(), "a")
	check.Equal(t, n, 0, "messages of a denied stream")
	wantDenied(t, err, "a", 30*time.Second)
}

func TestNothingDecided(t *testing.T) {
	r := newRig(t, grpclimit.Options{}, fine)
	_, err := r.client.Check(t.Context(), &health.HealthCheckRequest{})
	<-r.ended
	check.Equal(t, status.Code(err), codes.Unauthenticated, "without a key: %v", err)
	r.table.Fail(limiter.ErrUnavailable)
	err = r.check(t.Context(), "a")
	if wait, ok := grpclimit.RetryAfter(err); status.Code(err) != codes.Unavailable || !ok || wait != time.Second {
		t.Errorf("table down: %v, wait %v", err, wait)
	}
	check.Equal(t, status.Convert(err).Message(), "rate limiter unavailable", "a stranger is told")
	for err, code := range map[error]codes.Code{limiter.ErrTooLarge: codes.InvalidArgument,
		limiter.ErrDisabled: codes.PermissionDenied, limiter.ErrUnavailable: codes.Unavailable,
		limiter.ErrUnknown: codes.Unavailable, limiter.ErrNoLimits: codes.Internal, errors.New("x"): codes.Internal} {
		check.Equal(t, status.Code(grpclimit.Failed(t.Context(), fmt.Errorf("wrapped: %w", err))), code, "%v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	check.Equal(t, status.Code(grpclimit.Failed(gone, limiter.ErrUnavailable)), codes.Canceled,
		"the client has gone away")
}

// The status names the limits that deny, each with its wait.
func TestDeniedNamesTheLimits(t *testing.T) {
	denied := grpclimit.Denied(&limiter.LimitError{Statuses: []limiter.Status{{Limit: "rpm", RetryAfter: -1},
		{Limit: "rpd", Capacity: 9, Remaining: 8}, {Limit: "tpm", Capacity: 3, RetryAfter: time.Second}}})
	var told []string
	for _, v := range status.Convert(denied).Details()[0].(*errdetails.QuotaFailure).Violations {
		told = append(told, v.Description)
	}
	want := []string{"limit rpm: 0 left of 0, never granted", "limit tpm: 0 left of 3, retry after 1s"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// Where no wait helps, none is named: neither in years nor as zero.
func TestNeverIsNoRetryInfo(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	_, err := l.Acquire(t.Context(), limiter.Request{Entity: "a", Resource: "api", Costs: limiter.Costs{"images": 1},
		Limits: []limiter.Limit{limiter.Blocked("images")}})
	blocked, ok := errors.AsType[*limiter.LimitError](err)
	if !ok {
		t.Fatal(err)
	}
	longest := math.MaxInt64 / time.Millisecond * time.Millisecond
	for _, denied := range []*limiter.LimitError{blocked,
		{RetryAfter: longest, Statuses: []limiter.Status{{Limit: "tpm", RetryAfter: longest}}}} {
		err := grpclimit.Denied(denied)
		if wait, ok := grpclimit.RetryAfter(err); ok || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%v: wait %v", err, wait)
		}
		details := status.Convert(err).Details()
		quota, ok := details[0].(*errdetails.QuotaFailure)
		if !ok || len(details) != 1 || !strings.HasSuffix(quota.Violations[0].Description, ", never granted") {
			t.Errorf("details %v", details)
		}
	}
}

// A client learns how long to wait from any server's RetryInfo, and nothing from an error without.
func TestRetryAfter(t *testing.T) {
	with := func(details ...protoadapt.MessageV1) error {
		s, err := status.New(codes.Unavailable, "x").WithDetails(details...)
		check.Must(t, err)
		return s.Err()
	}
	for _, c := range []struct {
		err  error
		wait time.Duration
		ok   bool
	}{
		{err: nil}, {err: errors.New("x")}, {err: status.Error(codes.Unavailable, "x")},
		{err: with(&errdetails.QuotaFailure{})}, {err: with(&errdetails.RetryInfo{})},
		{with(&errdetails.RetryInfo{RetryDelay: durationpb.New(0)}), 0, true},
		{with(&errdetails.QuotaFailure{}, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)}),
			time.Minute, true},
	} {
		if wait, ok := grpclimit.RetryAfter(c.err); wait != c.wait || ok != c.ok {
			t.Errorf("%v: wait %v, %v; want %v, %v", c.err, wait, ok, c.wait, c.ok)
		}
	}
}

// An error of Request that is no status goes to Failed, and nothing is taken.
func TestRequestFails(t *testing.T) {
	own := errors.New("no tenant")
	o := grpclimit.Options{Request: func(context.Context, grpclimit.Call) (limiter.Request, error) {
		return limiter.Request{}, own
	}}
	r := newRig(t, o, fine)
	told := status.Convert(r.check(t.Context(), "a"))
	if told.Code() != codes.Internal || told.Message() != "internal error" {
		t.Errorf("a stranger is told %v", told)
	}
	o.Failed = func(_ context.Context, _ grpclimit.Call, err error) error {
		check.Is(t, err, own, "failed with")
		return status.Error(codes.DataLoss, "mine")
	}
	check.Equal(t, status.Code(newRig(t, o, fine).check(t.Context(), "a")), codes.DataLoss, "own failure")
}

// Request learns of a call its method, who serves it, and of a unary one the message.
func TestRequestLearnsOfTheCall(t *testing.T) {
	var calls []grpclimit.Call
	r := newRig(t, grpclimit.Options{Request: func(ctx context.Context, c grpclimit.Call) (limiter.Request, error) {
		calls = append(calls, c)
		return request(ctx, c)
	}}, fine)
	check.Must(t, r.check(t.Context(), "a"))
	_, _ = r.watch(t.Context(), "a")
	for i, method := range []string{health.Health_Check_FullMethodName, health.Health_Watch_FullMethodName} {
		c := calls[i]
		_, served := c.Server.(*server)
		if _, asked := c.Message.(*health.HealthCheckRequest); c.Method != method || !served || asked != (i == 0) {
			t.Errorf("call %d: %+v, want %s", i, c, method)
		}
	}
}

// A handler may end its lease itself, and a lease may not be settled: neither is trouble for the
// call, and nobody need be told.
func TestEndsOfLeases(t *testing.T) {
	end := func(ctx context.Context) error { return grpclimit.Lease(ctx).Rollback(ctx) }
	told := func(_ context.Context, _ grpclimit.Call, err error) { t.Errorf("told %v", err) }
	r := newRig(t, grpclimit.Options{Settled: told}, func(ctx context.Context) error { return end(ctx) })
	for range 5 { // all is given back
		check.NoError(t, r.check(t.Context(), "a"))
	}
	r = newRig(t, grpclimit.Options{}, func(ctx context.Context) error { return end(ctx) })
	end = func(ctx context.Context) error {
		r.table.Fail(limiter.ErrUnavailable)
		return grpclimit.Lease(ctx).Settle(limiter.Costs{"tpm": 35})
	}
	check.NoError(t, r.check(t.Context(), "a"))
}

// What the handler settles is written after it has returned, also when the client has
// gone away or the handler fails. A panic gives nothing back: a client may have caused it.
func TestSettling(t *testing.T) {
	var leave context.CancelFunc
	var key string
	var failed error
	var r *rig
	do := func(ctx context.Context) error {
		switch key {
		case "leaves":
			leave()
			<-ctx.Done()
			return grpclimit.Lease(ctx).Settle(limiter.Costs{"tpm": 35})
		case "fails":
			return errors.Join(grpclimit.Lease(ctx).Settle(limiter.Costs{"tpm": 35}), errors.New("x"))
		case "panics":
			panic("x")
		case "panics later":
			panic(grpclimit.Lease(ctx).Settle(limiter.Costs{"tpm": 35}))
		case "is lost", "is refused":
			trouble := limiter.ErrUnknown
			if key == "is refused" {
				trouble = limiter.ErrUnavailable
			}
			r.table.Fail(trouble)
			return grpclimit.Lease(ctx).Settle(limiter.Costs{"tpm": 35})
		}
		return nil
	}
	r = newRig(t, grpclimit.Options{Settled: func(_ context.Context, _ grpclimit.Call, err error) { failed = err }}, do)
	for _, c := range []struct {
		key    string
		left   [2]int64
		failed error
	}{
		{"is quiet", [2]int64{1, 90}, nil},
		{"leaves", [2]int64{1, 65}, nil},
		{"fails", [2]int64{1, 65}, nil},
		{"panics", [2]int64{1, 90}, nil},
		{"panics later", [2]int64{1, 65}, nil},
		{"is refused", [2]int64{1, 90}, limiter.ErrUnavailable},
		{"is lost", [2]int64{1, 65}, limiter.ErrUnknown},
	} {
		for _, kind := range []string{"unary", "stream"} {
			ctx, cancel := context.WithCancel(t.Context())
			leave, key, failed = cancel, c.key, nil
			if kind == "unary" {
				_ = r.check(ctx, c.key)
			} else {
				_, _ = r.watch(ctx, c.key)
			}
			cancel()
			r.table.Fail(nil)
			if got := r.left(t, c.key); got != c.left || !errors.Is(failed, c.failed) {
				t.Errorf("%s that %s: left %v, want %v; %v", kind, c.key, got, c.left, failed)
			}
			check.Must(t, check.Err(r.table.Admin("").Reset(t.Context(), c.key, "api")))
		}
	}
}

// A stream may cost more while it goes on, and end when that is denied: what it has
// taken until then stays taken.
func TestStreamChargesWhileItGoesOn(t *testing.T) {
	charged := 0
	r := newRig(t, grpclimit.Options{}, func(ctx context.Context) error {
		for {
			err := grpclimit.Lease(ctx).Charge(ctx, limiter.Costs{"rpm": 1})
			if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
				return grpclimit.Denied(denied)
			}
			if err != nil {
				return err
			}
			charged++
		}
	})
	n, err := r.watch(t.Context(), "a")
	if n != 3 || charged != 1 {
		t.Errorf("%d messages, %d more charged, want 3 and 1", n, charged)
	}
	wantDenied(t, err, "a", 30*time.Second)
	check.Equal(t, r.left(t, "a"), [2]int64{0, 90}, "left")
}

func TestHooksAndSkip(t *testing.T) {
	granted := 0
	o := grpclimit.Options{
		Skip: func(_ context.Context, c grpclimit.Call) bool { return c.Method == health.Health_Check_FullMethodName },
		Granted: func(_ context.Context, c grpclimit.Call, l *limiter.Lease) {
			if granted++; c.Message != nil || c.Server == nil || l.Entity() != "a" {
				t.Errorf("call %+v of %s", c, l.Entity())
			}
		},
		Denied: func(context.Context, grpclimit.Call, *limiter.LimitError) error {
			return status.Error(codes.Aborted, "mine")
		},
		Failed: func(context.Context, grpclimit.Call, error) error { return status.Error(codes.DataLoss, "mine") },
	}
	r := newRig(t, o, func(ctx context.Context) error {
		if m, _ := grpc.Method(ctx); (grpclimit.Lease(ctx) == nil) != (m == health.Health_Check_FullMethodName) {
			t.Error("a lease if and only if it was taken")
		}
		return nil
	})
	for range 5 {
		check.NoError(t, r.check(t.Context(), "a"))
	}
	var err error
	for range 3 {
		_, err = r.watch(t.Context(), "a")
	}
	if granted != 2 || status.Code(err) != codes.Aborted {
		t.Errorf("%d granted, then %v", granted, err)
	}
	r.table.Fail(limiter.ErrUnavailable)
	if _, err := r.watch(t.Context(), "b"); status.Code(err) != codes.DataLoss {
		t.Errorf("own failure: %v", err)
	}
}

// An interceptor that lacks what it needs panics at once, and not with the first call.
func TestInterceptorsNeedALimiterAndRequest(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	for name, f := range map[string]func(){
		"unary, no limiter":  func() { grpclimit.Unary(nil, grpclimit.Options{Request: request}) },
		"unary, nil limiter": func() { grpclimit.Unary((*limiter.Limiter)(nil), grpclimit.Options{Request: request}) },
		"unary, no request":  func() { grpclimit.Unary(l, grpclimit.Options{}) },
		"stream, no limiter": func() { grpclimit.Stream(nil, grpclimit.Options{Request: request}) },
		"stream, no request": func() { grpclimit.Stream(l, grpclimit.Options{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// A hook of the program that panics ends the call, and its slot is free at once.
func TestAHookThatPanicsFreesTheSlot(t *testing.T) {
	table := limitertest.New(t)
	limit := grpclimit.Unary(table.Limiter(nil), grpclimit.Options{
		Request: func(context.Context, grpclimit.Call) (limiter.Request, error) {
			return limiter.Request{Entity: "a", Resource: "jobs", Costs: limiter.Costs{"jobs": 1},
				Limits: []limiter.Limit{limiter.InFlight("jobs", 1, time.Minute)}}, nil
		},
		Granted: func(context.Context, grpclimit.Call, *limiter.Lease) { panic("x") },
	})
	func() {
		defer func() { check.Equal(t, recover(), any("x"), "the panic") }()
		_, _ = limit(t.Context(), nil, &grpc.UnaryServerInfo{}, nil)
	}()
	b, err := table.Admin("").Peek(t.Context(), "a", "jobs")
	check.Must(t, err)
	check.Equal(t, b[0].Levels[0].Remaining, 1, "free slots")
}

// The context of a call ends when its slot is lost; the lease is settled all the same.
func TestCallsThatLoseTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		limit := grpclimit.Unary(table.Limiter(nil), grpclimit.Options{
			Request: func(context.Context, grpclimit.Call) (limiter.Request, error) {
				return limiter.Request{Entity: "a", Resource: "jobs", Costs: limiter.Costs{"jobs": 1},
					Limits: []limiter.Limit{limiter.InFlight("jobs", 1, 5*time.Second)}}, nil
			},
			Settled: func(_ context.Context, _ grpclimit.Call, err error) { t.Error(err) },
		})
		_, err := limit(t.Context(), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
			table.Fail(limiter.ErrUnavailable)
			<-ctx.Done()
			table.Fail(nil)
			return nil, context.Cause(ctx)
		})
		check.Is(t, err, limiter.ErrSlotsLost, "the call ended with")
	})
}
