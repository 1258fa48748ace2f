//go:build envoy

package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// proxy is a running Envoy.
type proxy struct {
	Admin, Service, Upstream int
	Listeners                map[bool]int // by failure_mode_deny
}

// newProxy starts an Envoy that uses the service on a port.
func newProxy(t *testing.T, service int) *proxy {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	p := &proxy{freePort(t), service, upstream.Listener.Addr().(*net.TCPAddr).Port,
		map[bool]int{true: freePort(t), false: freePort(t)}}
	var config bytes.Buffer
	check.Must(t, template.Must(template.ParseFiles("testdata/envoy.yaml")).Execute(&config, p))
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	check.Must(t, os.WriteFile(file, config.Bytes(), 0o644))
	envoy := filepath.Join(engine.Root(), "..", "..", ".cache", "serve", "bin", "envoy")
	check.Must(t, check.Err(os.Stat(envoy)), "run make test-envoy")
	run := start(t, os.Environ(), envoy, "--config-path", file, "--use-dynamic-base-id", "--concurrency", "2",
		"-l", "warning")
	run.answers(t, fmt.Sprintf("http://127.0.0.1:%d/ready", p.Admin))
	return p
}

// get sends a request from an address to the listener that denies, or grants, requests without a
// decision.
func (p *proxy) get(ctx context.Context, deny bool, path, user, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", p.Listeners[deny], path), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-User", user)
	dial := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dial.DialContext, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// wants sends one request for each status.
func (p *proxy) wants(t *testing.T, deny bool, path, user, address string, statuses ...int) *http.Response {
	t.Helper()
	var last *http.Response
	for i, want := range statuses {
		resp, err := p.get(t.Context(), deny, path, user, address)
		check.Must(t, err)
		check.Equal(t, resp.StatusCode, want, "%s of %s from %s, request %d", path, user, address, i+1)
		last = resp
	}
	return last
}

// Requests are limited by header, by remote address and by path. Answers have the limits.
func TestLimits(t *testing.T) {
	w, port := newTable(t), freePort(t)
	w.serve(t, port)
	p := newProxy(t, port)
	denied := p.wants(t, true, "/header", "ann", "127.0.0.1", 200, 200, 200, 429)
	p.wants(t, true, "/header", "bob", "127.0.0.1", 200)
	for field, want := range map[string]string{"X-RateLimit-Limit": "3, 3;w=31536000", "X-RateLimit-Remaining": "0",
		"X-RateLimit-Reset": "3153", "Retry-After": "105", "X-Envoy-Ratelimited": "true"} {
		if got := denied.Header.Get(field); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	for _, user := range []string{"\xff", "ann\xff", "ann\xfe"} { // Envoy sends it as it came
		p.wants(t, false, "/header", user, "127.0.0.1", 200, 200, 200, 429)
	}
	p.wants(t, true, "/address", "ann", "127.0.0.2", 200, 200, 429)
	p.wants(t, true, "/address", "ann", "127.0.0.3", 200)
	granted := p.wants(t, true, "/api/orders", "ann", "127.0.0.1", 200)
	check.Equal(t, granted.Header.Get("X-RateLimit-Limit"), `1, 1;w=31536000;name="api"`, "limit")
	p.wants(t, true, "/api/orders", "ann", "127.0.0.1", 429)
	p.wants(t, true, "/api/users", "ann", "127.0.0.1", 200, 429)
	p.wants(t, true, "/other", "ann", "127.0.0.1", 200, 200, 200)
}

// Without the service, Envoy decides. A restarted service knows the taken hits.
func TestServiceGone(t *testing.T) {
	w, port := newTable(t), freePort(t)
	service := w.serve(t, port)
	p := newProxy(t, port)
	p.wants(t, true, "/header", "ann", "127.0.0.1", 200, 200)
	service.Kill()
	<-service.Done()
	p.wants(t, true, "/header", "ann", "127.0.0.1", 500, 500)
	p.wants(t, false, "/header", "ann", "127.0.0.1", 200, 200)
	w.serve(t, port)
	p.wants(t, true, "/header", "ann", "127.0.0.1", 200, 429)
	p.wants(t, false, "/header", "ann", "127.0.0.1", 429)
}

// A slow table still gives decisions. Without a decision, because the table throttles or is gone,
// Envoy decides, and nothing is taken. When the table answers again, the limit is unchanged.
func TestTableInTrouble(t *testing.T) {
	w, port := newTable(t), freePort(t)
	w.serve(t, port)
	p := newProxy(t, port)
	p.wants(t, true, "/header", "ann", "127.0.0.1", 200)
	w.fault.Add(&fault.Rule{Fault: fault.Delayed(200 * time.Millisecond)})
	p.wants(t, true, "/header", "ann", "127.0.0.1", 200)
	w.fault.Clear()
	w.fault.Add(&fault.Rule{Fault: fault.Throttled(fault.ReasonKeyRange)})
	p.wants(t, true, "/header", "ann", "127.0.0.1", 500)
	p.wants(t, false, "/header", "ann", "127.0.0.1", 200)
	w.fault.Clear()
	w.fault.Down()
	p.wants(t, true, "/header", "ann", "127.0.0.1", 500)
	p.wants(t, false, "/header", "ann", "127.0.0.1", 200)
	check.Must(t, w.fault.Up())
	for {
		resp, err := p.get(t.Context(), true, "/header", "ann", "127.0.0.1")
		check.Must(t, err)
		if resp.StatusCode != http.StatusInternalServerError { // the service probes four times a second
			check.Equal(t, resp.StatusCode, http.StatusOK, "the table answers again")
			break
		}
	}
	p.wants(t, true, "/header", "ann", "127.0.0.1", 429)
}

// Two Envoys, each with a service, on one table, together grant what one would, and not one more,
// even if a service is killed and started again.
func TestTwoEnvoysAndTwoServices(t *testing.T) {
	w := newTable(t)
	ports := []int{freePort(t), freePort(t)}
	service := w.serve(t, ports[0])
	w.serve(t, ports[1])
	proxies := []*proxy{newProxy(t, ports[0]), newProxy(t, ports[1])}
	var granted, denied, undecided atomic.Int64
	var senders sync.WaitGroup
	busy := make(chan struct{})
	for sender := range 8 {
		senders.Go(func() {
			for range 40 {
				resp, err := proxies[sender%2].get(t.Context(), true, "/header", "crowd", "127.0.0.1")
				switch {
				case err != nil:
					t.Error(err)
				case resp.StatusCode == http.StatusOK:
					if granted.Add(1) == 30 {
						close(busy)
					}
				case resp.StatusCode == http.StatusTooManyRequests:
					denied.Add(1)
				default:
					undecided.Add(1)
				}
			}
		})
	}
	<-busy
	service.Kill()
	<-service.Done()
	w.serve(t, ports[0])
	senders.Wait()
	t.Logf("%d granted, %d denied, %d undecided", granted.Load(), denied.Load(), undecided.Load())
	// The killed service took tokens for requests that Envoy did not grant: at most one per sender.
	if n := granted.Load(); n > 100 || n < 100-8 {
		t.Errorf("%d of 100 were granted", n)
	}
	if undecided.Load() == 0 {
		t.Error("no request met the killed service")
	}
}
