package envoylimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

const rules = `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 3, name: per address}
  - key: remote_address
    value: 50.0.0.5
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: path
    value: /login
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: internal
    rate_limit: {unlimited: true}
  - key: trial
    rate_limit: {unit: minute, requests_per_unit: 1}
    shadow_mode: true
  - key: nightly
    rate_limit: {unit: minute, requests_per_unit: 100}
    class: batch
  - key: files
    value: files/*
    share_threshold: true
    rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 2}
`

// rig is a service over a connection in memory, and its table.
type rig struct {
	table   *limitertest.Table
	service *envoylimit.Service
	client  ratelimit.RateLimitServiceClient
	mu      sync.Mutex
	decided []string
}

func parse(t *testing.T, text string) *envoylimit.Config {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "edge.yaml", text)
	c, err := envoylimit.ReadFolder(folder)
	check.Must(t, err)
	return c
}

func newRig(t *testing.T) *rig {
	r := &rig{table: limitertest.New(t)}
	r.service = envoylimit.New(r.table.Limiter(&limiter.Options{ConfigTTL: -1}), parse(t, rules), envoylimit.Options{
		Decided: func(_ context.Context, d envoylimit.Decision) {
			r.mu.Lock()
			defer r.mu.Unlock()
			text := fmt.Sprintf("%s: %d from %s of %s", d.Rule, d.Hits, d.Entity, d.Resource)
			if d.Over {
				text += ", over"
			}
			if d.Shadow {
				text += ", shadow"
			}
			if errors.Is(d.Err, limiter.ErrUnavailable) {
				text += ", unavailable"
			}
			r.decided = append(r.decided, text)
		},
	})
	srv := grpc.NewServer()
	r.service.Register(srv)
	lis := bufconn.Listen(1 << 16)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.client = ratelimit.NewRateLimitServiceClient(conn)
	return r
}

// descriptor returns one of keys and values by turns.
func descriptor(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func withHits(d *common.RateLimitDescriptor, n uint64) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func withLimit(d *common.RateLimitDescriptor, n uint32, unit envoytype.RateLimitUnit) *common.RateLimitDescriptor {
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

func (r *rig) ask(t *testing.T, hits uint32, ds ...*common.RateLimitDescriptor) *ratelimit.RateLimitResponse {
	t.Helper()
	out, err := r.client.ShouldRateLimit(t.Context(),
		&ratelimit.RateLimitRequest{Domain: "edge", Descriptors: ds, HitsAddend: hits})
	check.Must(t, err)
	return out
}

// inOneLine writes an answer as one line: the code, limit, remaining and reset of each descriptor, then the
// headers.
func inOneLine(out *ratelimit.RateLimitResponse) string {
	parts := []string{out.GetOverallCode().String()}
	for _, s := range out.GetStatuses() {
		text := s.GetCode().String()
		if l := s.GetCurrentLimit(); l != nil {
			unit := l.GetUnit().String()
			if m := l.GetUnitMultiplier(); m != nil {
				unit = fmt.Sprintf("%d*%s", m.GetValue(), unit)
			}
			text += fmt.Sprintf(" %d/%s", l.GetRequestsPerUnit(), unit)
			if l.GetName() != "" {
				text += fmt.Sprintf(" %q", l.GetName())
			}
		}
		if s.GetLimitRemaining() > 0 {
			text += fmt.Sprintf(" %d left", s.GetLimitRemaining())
		}
		if s.GetDurationUntilReset() != nil {
			text += fmt.Sprintf(" reset %v", s.GetDurationUntilReset().AsDuration())
		}
		parts = append(parts, text)
	}
	for _, h := range out.GetResponseHeadersToAdd() {
		parts = append(parts, h.GetKey()+": "+h.GetValue())
	}
	return strings.Join(parts, " | ")
}

// step is a request, and the answer in one line.
type step struct {
	hits        uint32
	descriptors []*common.RateLimitDescriptor
	want        string
}

func one(hits uint32, d *common.RateLimitDescriptor, want string) step {
	return step{hits, []*common.RateLimitDescriptor{d}, want}
}

func from(address string) *common.RateLimitDescriptor { return descriptor("remote_address", address) }

// perAddress is the header field of the rule for addresses.
const perAddress = `X-RateLimit-Limit: 3, 3;w=60;name="per address" | X-RateLimit-Remaining: `

func TestAnswers(t *testing.T) {
	const five = "Retry-After: 150"
	for name, steps := range map[string][]step{
		"taken, denied, and granted after the wait": {
			one(0, from("a"), `OK | OK 3/MINUTE "per address" 2 left reset 20s | `+perAddress+"2 | X-RateLimit-Reset: 20"),
			one(2, from("a"), `OK | OK 3/MINUTE "per address" reset 1m0s | `+perAddress+"0 | X-RateLimit-Reset: 60"),
			one(2, from("a"), `OVER_LIMIT | OVER_LIMIT 3/MINUTE "per address" reset 1m0s | `+perAddress+
				"0 | X-RateLimit-Reset: 60 | Retry-After: 40"),
			{want: "advance 40s"},
			one(2, from("a"), `OK | OK 3/MINUTE "per address" reset 1m0s | `+perAddress+"0 | X-RateLimit-Reset: 60"),
			one(2, from("b"), `OK | OK 3/MINUTE "per address" 1 left reset 40s | `+perAddress+"1 | X-RateLimit-Reset: 40"),
		},
		"hits of the descriptor, none of them a look": {
			one(1, withHits(from("a"), 3), `OK | OK 3/MINUTE "per address" reset 1m0s | `+perAddress+
				"0 | X-RateLimit-Reset: 60"),
			one(1, withHits(from("a"), 0), `OVER_LIMIT | OVER_LIMIT 3/MINUTE "per address" reset 1m0s | `+perAddress+
				"0 | X-RateLimit-Reset: 60 | Retry-After: 20"),
			{want: "advance 20s"},
			one(1, withHits(from("a"), 0), `OK | OK 3/MINUTE "per address" 1 left reset 40s | `+perAddress+
				"1 | X-RateLimit-Reset: 40"),
			one(1, from("a"), `OK | OK 3/MINUTE "per address" reset 1m0s | `+perAddress+"0 | X-RateLimit-Reset: 60"),
		},
		"more hits than there can be": {
			one(math.MaxUint32, from("a"), `OVER_LIMIT | OVER_LIMIT 3/MINUTE "per address" 3 left reset 0s | `+perAddress+
				"3 | X-RateLimit-Reset: 0"),
			one(1, withHits(from("a"), math.MaxUint64), `OVER_LIMIT | OVER_LIMIT 3/MINUTE "per address" 3 left reset 0s | `+
				perAddress+"3 | X-RateLimit-Reset: 0"),
		},
		"none are allowed": {
			one(1, from("50.0.0.5"), `OVER_LIMIT | OVER_LIMIT 0/SECOND | X-RateLimit-Limit: 0, 0;w=1 | X-RateLimit-Remaining: 0`),
			one(1, withHits(from("50.0.0.5"), 0),
				"OVER_LIMIT | OVER_LIMIT 0/SECOND | X-RateLimit-Limit: 0, 0;w=1 | X-RateLimit-Remaining: 0"),
		},
		"nothing matches, and unlimited": {
			{0, []*common.RateLimitDescriptor{descriptor("internal", "x"), descriptor("other", "x"), descriptor(),
				descriptor("path", "/x"), descriptor("path", "/login", "more", "x")},
				"OK | OK 4294967295 left | OK | OK | OK | OK"},
		},
		"shadow mode counts, and denies nothing": {
			one(0, descriptor("trial", "x"), "OK | OK 1/MINUTE reset 1m0s"),
			one(0, descriptor("trial", "x"), "OK | OK 1/MINUTE reset 1m0s"),
		},
		"a shared threshold, several units, several descriptors": {
			one(0, descriptor("files", "files/a"),
				`OK | OK 2/5*MINUTE 1 left reset 2m30s | X-RateLimit-Limit: 2, 2;w=300 | X-RateLimit-Remaining: 1 | X-RateLimit-Reset: 150`),
			one(0, descriptor("files", "files/b"),
				`OK | OK 2/5*MINUTE reset 5m0s | X-RateLimit-Limit: 2, 2;w=300 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 300`),
			{0, []*common.RateLimitDescriptor{descriptor("path", "/login"), descriptor("files", "files/c")},
				"OVER_LIMIT | OK 2/HOUR 1 left reset 30m0s | OVER_LIMIT 2/5*MINUTE reset 5m0s | " +
					"X-RateLimit-Limit: 2, 2;w=3600, 2;w=300 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 300 | " + five},
			one(0, descriptor("path", "/login"), // the hit of the request that was denied stays taken
				`OK | OK 2/HOUR reset 1h0m0s | X-RateLimit-Limit: 2, 2;w=3600 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 3600`),
		},
		"a limit that comes with the request": {
			one(0, withLimit(from("a"), 5, envoytype.RateLimitUnit_DAY),
				`OK | OK 5/DAY 4 left reset 4h48m0s | X-RateLimit-Limit: 5, 5;w=86400 | X-RateLimit-Remaining: 4 | X-RateLimit-Reset: 17280`),
			one(0, withLimit(descriptor("other", "x"), 0, envoytype.RateLimitUnit_DAY),
				"OVER_LIMIT | OVER_LIMIT 0/DAY | X-RateLimit-Limit: 0, 0;w=86400 | X-RateLimit-Remaining: 0"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for i, s := range steps {
				if d, ok := strings.CutPrefix(s.want, "advance "); ok {
					after, err := time.ParseDuration(d)
					check.Must(t, err)
					r.table.Advance(after)
				} else if got := inOneLine(r.ask(t, s.hits, s.descriptors...)); got != s.want {
					t.Errorf("step %d:\n%s, want\n%s", i, got, s.want)
				}
			}
		})
	}
}

// Stored limits hold instead of the rule's, of whatever kind; a limit that comes with the request holds
// instead of both.
func TestStoredLimitsWin(t *testing.T) {
	r := newRig(t)
	ns := r.table.Admin("")
	scope := func(address string) admin.Scope {
		entity, resource := envoylimit.BucketOf("edge", "remote_address", address)
		return admin.Scope{Entity: entity, Resource: resource}
	}
	for i, c := range []struct {
		stored limiter.Limit
		want   string
	}{
		{limiter.PerHour(envoylimit.LimitName, 100), "100/HOUR"},
		{limiter.Limit{Name: envoylimit.LimitName, Capacity: 9, Refill: 5, Period: 90 * time.Second}, "5/90*SECOND"},
		{limiter.Quota(envoylimit.LimitName, 1000, limiter.Daily("")), "1000/UNKNOWN"},
		{limiter.Blocked(envoylimit.LimitName), "0/316223999*SECOND"},
	} {
		for _, address := range []string{fmt.Sprint("x", i), fmt.Sprint("y", i)} {
			check.Must(t, ns.SetLimits(t.Context(), scope(address), c.stored))
		}
		if got := inOneLine(r.ask(t, 0, from(fmt.Sprint("x", i)))); !strings.Contains(got, " "+c.want) {
			t.Errorf("%v: %s, want %s", c.stored, got, c.want)
		}
		with := withLimit(from(fmt.Sprint("y", i)), 7, envoytype.RateLimitUnit_HOUR)
		if got := inOneLine(r.ask(t, 0, with)); !strings.Contains(got, " 7/HOUR") {
			t.Errorf("%v, and one with the request: %s", c.stored, got)
		}
	}
	if got := inOneLine(r.ask(t, 0, from("b"))); !strings.Contains(got, " 3/MINUTE") {
		t.Errorf("another address: %s", got)
	}
	check.Must(t, check.Err(ns.SetAccess(t.Context(), scope("x0"), admin.AccessDisabled)))
	check.Equal(t, inOneLine(r.ask(t, 0, from("x0"))), "OVER_LIMIT | OVER_LIMIT", "disabled")
}

// A descriptor with a class leaves the floor that the stored limit has for it: of 10, 4 can be had.
func TestClassesLeaveFloors(t *testing.T) {
	r := newRig(t)
	entity, resource := envoylimit.BucketOf("edge", "nightly", "x")
	err := r.table.Admin("").SetLimits(t.Context(), admin.Scope{Entity: entity, Resource: resource},
		limiter.PerHour(envoylimit.LimitName, 10).WithFloor("batch", 60))
	check.Must(t, err)
	for i := range 6 {
		got := r.ask(t, 0, descriptor("nightly", "x"))
		want := ratelimit.RateLimitResponse_OK
		if i >= 4 {
			want = ratelimit.RateLimitResponse_OVER_LIMIT
		}
		check.Equal(t, got.GetOverallCode(), want, "request %d: %s", i+1, inOneLine(got))
	}
}

// asking counts the requests that ask for stored limits.
type asking struct {
	envoylimit.Acquirer
	stored int
}

func (a *asking) Acquire(ctx context.Context, r limiter.Request) (*limiter.Lease, error) {
	if r.Limits == nil {
		a.stored++
	}
	return a.Acquirer.Acquire(ctx, r)
}

// It is asked for stored limits once in ten seconds, and with every request where some are stored.
func TestStoredLimitsAreAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		stored := admin.Scope{Entity: "stored", Resource: "edge|remote_address"}
		check.Must(t, table.Admin("").SetLimits(t.Context(), stored, limiter.PerSecond(envoylimit.LimitName, 9)))
		for address, want := range map[string]int{"a": 3, "stored": 30} {
			a := &asking{Acquirer: table.Limiter(nil)}
			s := envoylimit.New(a, parse(t, rules), envoylimit.Options{})
			for range 30 {
				_, err := s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "edge",
					Descriptors: []*common.RateLimitDescriptor{from(address)}})
				check.Must(t, err)
				time.Sleep(time.Second)
			}
			check.Equal(t, a.stored, want, "%s: asked times", address)
		}
	})
}

// A look at a blocked limit is over it, and no wait helps.
func TestALookAtABlockedLimit(t *testing.T) {
	r := newRig(t)
	entity, resource := envoylimit.BucketOf("edge", "remote_address", "x")
	check.Must(t, r.table.Admin("").SetLimits(t.Context(), admin.Scope{Entity: entity, Resource: resource},
		limiter.Blocked(envoylimit.LimitName)))
	check.Equal(t, inOneLine(r.ask(t, 0, withHits(from("x"), 0))), `OVER_LIMIT | OVER_LIMIT 0/316223999*SECOND `+
		`"per address" | X-RateLimit-Limit: 0, 0;w=316223999;name="per address" | X-RateLimit-Remaining: 0`)
}

// A look at a soft limit is granted, also in debt.
func TestLookAtASoftLimit(t *testing.T) {
	r := newRig(t)
	scope := admin.Scope{Entity: "a", Resource: "edge|remote_address"}
	soft := limiter.PerHour(envoylimit.LimitName, 2).AsSoft()
	check.Must(t, r.table.Admin("").SetLimits(t.Context(), scope, soft))
	for range 4 {
		if got := inOneLine(r.ask(t, 0, from("a"))); !strings.HasPrefix(got, "OK") {
			t.Error(got)
		}
	}
	if got := inOneLine(r.ask(t, 0, withHits(from("a"), 0))); !strings.HasPrefix(got, "OK | OK 2/HOUR ") {
		t.Errorf("a look: %s", got)
	}
}

// Where there is no decision, the error leaves it to Envoy, unless another descriptor decides.
func TestNoDecision(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.ask(t, 0, from("a"))
	}
	ask := func(ds ...*common.RateLimitDescriptor) (*ratelimit.RateLimitResponse, error) {
		return r.client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "edge", Descriptors: ds})
	}
	r.table.Fail(limiter.ErrUnavailable)
	if out, err := ask(from("b"), descriptor("internal", "x")); status.Code(err) != codes.Unavailable ||
		status.Convert(err).Message() != "rate limiter unavailable" {
		t.Errorf("table down: %v, %v", out, err)
	}
	if out, err := ask(descriptor("trial", "x")); err != nil || inOneLine(out) != "OK | OK" {
		t.Errorf("table down, shadow mode: %v, %v", out, err)
	}
	r.table.Fail(nil)
	ns := r.table.Admin("")
	check.Must(t, ns.SetLimits(t.Context(), admin.Scope{Entity: "c"}, limiter.PerMinute("rpm", 3)))
	if out, err := ask(from("c")); status.Code(err) != codes.Internal {
		t.Errorf("stored limits of another name: %v, %v", out, err)
	}
	if out, err := ask(from("c"), from("a")); err != nil ||
		!strings.HasPrefix(inOneLine(out), "OVER_LIMIT | UNKNOWN | OVER_LIMIT 3/MINUTE") {
		t.Errorf("another descriptor is over: %v, %v", out, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	out, err := r.service.ShouldRateLimit(gone, &ratelimit.RateLimitRequest{Domain: "edge",
		Descriptors: []*common.RateLimitDescriptor{from("d")}})
	check.Equal(t, status.Code(err), codes.Canceled, "the client has gone: %v, %v", out, err)
}

// A lost answer may have taken the hits, and is no decision either.
func TestLostAnswer(t *testing.T) {
	r := newRig(t)
	r.table.Fail(limiter.ErrUnknown)
	out, err := r.client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "edge",
		Descriptors: []*common.RateLimitDescriptor{from("a")}})
	check.Equal(t, status.Code(err), codes.Unavailable, "%v, %v", out, err)
}

// tooLarge is a limiter to which every request is too large.
type tooLarge struct{}

func (tooLarge) Acquire(context.Context, limiter.Request) (*limiter.Lease, error) {
	return nil, limiter.ErrTooLarge
}

// The look after a request that is too large is the last one.
func TestLooksAreNotRepeated(t *testing.T) {
	s := envoylimit.New(tooLarge{}, parse(t, rules), envoylimit.Options{})
	for n, want := range map[uint64]codes.Code{0: codes.Internal, 9: codes.OK} {
		out, err := s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "edge",
			Descriptors: []*common.RateLimitDescriptor{withHits(from("a"), n)}})
		check.Equal(t, status.Code(err), want, "%d hits: %v, %v", n, out, err)
	}
}

func TestInvalidRequestsTakeNothing(t *testing.T) {
	r := newRig(t)
	negative := from("a")
	negative.IsNegativeHits = true
	many := withLimit(from("a"), 1, envoytype.RateLimitUnit_YEAR)
	many.Limit.UnitMultiplier = wrapperspb.UInt32(11)
	none := withLimit(from("a"), 1, envoytype.RateLimitUnit_DAY)
	none.Limit.UnitMultiplier = wrapperspb.UInt32(0)
	all := []*common.RateLimitDescriptor{from("a")}
	for want, req := range map[string]*ratelimit.RateLimitRequest{
		"domain is empty, want the domain of a configuration": {Descriptors: all},
		"descriptors are empty, want at least one":            {Domain: "edge"},
		"descriptors[1].is_negative_hits is true: nothing can be given back": {Domain: "edge",
			Descriptors: append(all, negative)},
		"descriptors[0].limit.unit is UNKNOWN, want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR": {Domain: "edge",
			Descriptors: []*common.RateLimitDescriptor{withLimit(from("a"), 1, 0)}},
		"descriptors[0].limit.unit_multiplier is 0, want 1 to 3650": {Domain: "edge",
			Descriptors: []*common.RateLimitDescriptor{none}},
		"descriptors[0].limit.unit_multiplier is 11, want 1 to 10": {Domain: "edge",
			Descriptors: []*common.RateLimitDescriptor{many}},
	} {
		out, err := r.client.ShouldRateLimit(t.Context(), req)
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != want {
			t.Errorf("%v, %v, want %s", out, err, want)
		}
	}
	out, err := r.client.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "unknown", Descriptors: all})
	if err != nil || inOneLine(out) != "OK | OK" {
		t.Errorf("a domain that is not known: %v, %v", out, err)
	}
}

// Decisions are reported as they were made, also those of shadow mode.
func TestDecisionsAreReported(t *testing.T) {
	r := newRig(t)
	r.ask(t, 2, descriptor("trial", "x"), descriptor("internal", "x"), descriptor("other", "x"))
	r.ask(t, 2, withLimit(descriptor("other", "x"), 5, envoytype.RateLimitUnit_DAY))
	r.ask(t, 2, withHits(descriptor("files", "files/a"), 0))
	r.table.Fail(limiter.ErrUnavailable)
	_, _ = r.service.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "edge",
		Descriptors: []*common.RateLimitDescriptor{descriptor("path", "/login")}})
	want := []string{"edge|trial: 2 from x of edge|trial, over, shadow", "edge|override: 2 from x of edge|other",
		"edge|files=files/*: 0 from files/* of edge|files",
		"edge|path=/login: 1 from /login of edge|path, unavailable"}
	if !slices.Equal(r.decided, want) {
		t.Errorf("reported %q, want\n%q", r.decided, want)
	}
}

// Ten thousand descriptors of one request are answered, and counted. The header fields stay short, because
// clients of HTTP refuse long ones.
func TestManyDescriptors(t *testing.T) {
	r := newRig(t)
	const n = 10_000
	var others []*common.RateLimitDescriptor
	for i := range n {
		others = append(others, withLimit(descriptor("other", "x"), uint32(i+1), envoytype.RateLimitUnit_DAY))
	}
	for _, h := range r.ask(t, 0, others...).GetResponseHeadersToAdd() {
		if len(h.GetValue()) > 1000 {
			t.Errorf("%s has %d bytes: %.100s", h.GetKey(), len(h.GetValue()), h.GetValue())
		}
	}
	out := r.ask(t, 1, slices.Repeat([]*common.RateLimitDescriptor{from("a")}, n)...)
	check.Equal(t, out.GetResponseHeadersToAdd()[0].GetValue(), `3, 3;w=60;name="per address"`, "the limit, once")
	codes := map[ratelimit.RateLimitResponse_Code]int{}
	for _, s := range out.GetStatuses() {
		codes[s.GetCode()]++
	}
	if codes[ratelimit.RateLimitResponse_OK] != 3 || codes[ratelimit.RateLimitResponse_OVER_LIMIT] != n-3 {
		t.Errorf("%v, want 3 and %d", codes, n-3)
	}
}

// Requests follow a new configuration.
func TestSetConfig(t *testing.T) {
	r := newRig(t)
	r.service.SetConfig(parse(t, "domain: edge\ndescriptors:\n- key: other\n"+
		"  rate_limit: {unit: week, requests_per_unit: 7}\n"))
	want := "OK | OK 7/WEEK 6 left reset 24h0m0s | OK | X-RateLimit-Limit: 7, 7;w=604800 | " +
		"X-RateLimit-Remaining: 6 | X-RateLimit-Reset: 86400"
	check.Equal(t, inOneLine(r.ask(t, 0, descriptor("other", "x"), from("a"))), want)
}
