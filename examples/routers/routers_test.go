package routers_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/gin-gonic/gin"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/zeroae/zae-limiter-go/examples/routers"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

var tenants = map[string]string{"demo": "acme"} // by API key

// request takes one of two a minute.
func request(r *http.Request) (limiter.Request, error) {
	tenant, ok := tenants[r.Header.Get("X-Api-Key")]
	if !ok {
		return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("unknown key")}
	}
	return limiter.Request{Entity: tenant, Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 2)}}, nil
}

func get(t *testing.T, url, key string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(body)
}

func TestRouters(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	failures := func(status int) bool { return status >= 400 }
	successes := func(status int) bool { return status < 400 }
	for name, router := range map[string]func(func(http.Handler) http.Handler) http.Handler{
		"chi": routers.Chi, "gin": routers.Gin, "echo": routers.Echo,
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				counts func(int) bool
				paths  []string
				last   int // status of the last one
			}{
				{nil, []string{"/hello", "/fails", "/hello"}, 429},
				{nil, []string{"/hello", "/healthz", "/healthz", "/healthz", "/hello"}, 200},
				{failures, []string{"/hello", "/hello", "/hello", "/hello"}, 200},
				{failures, []string{"/fails", "/fails", "/hello"}, 429},
				{successes, []string{"/fails", "/fails", "/fails", "/hello"}, 200},
				{successes, []string{"/hello", "/hello", "/fails"}, 429},
			} {
				l := limitertest.New(t).Limiter(nil)
				srv := httptest.NewServer(router(httplimit.New(l, httplimit.Options{Request: request, Counts: c.counts})))
				for i, path := range c.paths {
					want := map[string]int{"/hello": 200, "/healthz": 200, "/fails": http.StatusTeapot}[path]
					if i == len(c.paths)-1 {
						want = c.last
					}
					a, body := get(t, srv.URL+path, "demo")
					if a.StatusCode != want || (path == "/hello" && want == 200) != (body == "hello acme\n") {
						t.Errorf("%d of %q: %s %q, want %d", i, c.paths, a.Status, body, want)
					}
					if (a.Header.Get("RateLimit") == "") != (path == "/healthz") {
						t.Errorf("%s: %q", path, a.Header)
					}
				}
				if a, body := get(t, srv.URL+"/hello", "made up"); a.StatusCode != http.StatusUnauthorized {
					t.Errorf("a key that nobody knows: %s %s", a.Status, body)
				}
				srv.Close()
			}
		})
	}
}

func TestConnect(t *testing.T) {
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithProtoJSON(), "grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(),
	} {
		l := limitertest.New(t).Limiter(nil)
		limit := httplimit.New(l, httplimit.Options{Request: request, Denied: routers.ConnectDenied})
		srv := httptest.NewUnstartedServer(routers.Connect(limit))
		srv.EnableHTTP2 = true
		srv.StartTLS()
		defer srv.Close()
		check := connect.NewClient[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse](
			srv.Client(), srv.URL+"/grpc.health.v1.Health/Check", protocol)
		for i, want := range []connect.Code{0, 0, connect.CodeResourceExhausted, connect.CodeUnauthenticated} {
			r := connect.NewRequest(&grpc_health_v1.HealthCheckRequest{})
			r.Header().Set("X-Api-Key", map[bool]string{true: "demo"}[i < 3])
			a, err := check.CallUnary(t.Context(), r)
			if want == 0 && (err != nil || a.Header().Get("RateLimit") == "") {
				t.Errorf("%s: %v", name, err)
			}
			if want != 0 && connect.CodeOf(err) != want {
				t.Errorf("%s, request %d: %v, want %v", name, i, err, want)
			}
			if failed, ok := errors.AsType[*connect.Error](err); ok && i == 2 && failed.Meta().Get("Retry-After") != "30" {
				t.Errorf("%s: %v", name, failed.Meta())
			}
		}
	}
}
