package main

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// piped is a listener of connections in memory. With bufconn of gRPC, requests in a bubble time out
// under the race detector.
type piped struct {
	address string
	dialed  chan net.Conn
	closed  context.Context
	close   context.CancelFunc
}

func newPiped(address string) *piped {
	closed, closes := context.WithCancel(context.Background())
	return &piped{address, make(chan net.Conn), closed, closes}
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error { p.close(); return nil }

func (p *piped) Addr() net.Addr { return &net.UnixAddr{Name: p.address} }

func (p *piped) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.dialed <- server:
		return client, nil
	case <-p.closed.Done():
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A client that is slow to ask, or to read, loses its connection; so does one of gRPC that is gone, or that
// pings more often than every five seconds.
func TestServeCutsSlowClients(t *testing.T) {
	const acquire = "POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
	const envoy = "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
	for name, c := range map[string]struct {
		grpc  bool
		sends string
		reads bool
		after time.Duration
	}{
		"nothing":                {reads: true, after: 5 * time.Second},
		"half of a header":       {sends: acquire, reads: true, after: 5 * time.Second},
		"half of a body":         {sends: acquire + "\r\n{", reads: true, after: 10 * time.Second},
		"half of a body of JSON": {sends: envoy + "\r\n{", reads: true, after: 10 * time.Second},
		"it does not read":       {sends: "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n", after: 30 * time.Second},
		"nothing of gRPC":        {grpc: true, reads: true, after: 10 * time.Second},
		"a dead peer":            {grpc: true, sends: http2Hello, reads: true, after: time.Minute + 20*time.Second},
		"pings without end": {grpc: true, sends: http2Hello + strings.Repeat(http2Ping, 4), reads: true,
			after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := limitertest.NewLive(t)
				ns := table.Admin("")
				l := table.Limiter(nil)
				service := envoylimit.New(l, &envoylimit.Config{}, envoylimit.Options{})
				listener := newPiped("")
				ended := make(chan struct{})
				var stop func()
				if c.grpc {
					s, _, err := grpcServer(serveFlags{}, service)
					check.Must(t, err)
					stop = s.Stop
					go func() { _ = s.Serve(listener); close(ended) }()
				} else {
					s := httpServer(service, &api{l, ns, newLeases(1), func(error) {}}, newMetrics(nil))
					stop = func() { _ = s.Close() }
					go func() { _ = s.Serve(listener); close(ended) }()
				}
				client, err := listener.dial(t.Context())
				check.Must(t, err)
				began := time.Now()
				var sending sync.WaitGroup // a pipe would wait for its reader
				sending.Go(func() { _, _ = io.WriteString(client, c.sends) })
				if !c.reads {
					time.Sleep(c.after + 1) // it is cut meanwhile
					began = began.Add(1)
				}
				_, _ = io.Copy(io.Discard, client) // until it is cut
				check.Equal(t, time.Since(began), c.after, "cut after")
				sending.Wait()
				stop()
				<-ended
			})
		})
	}
}

// What a client of HTTP/2 sends at first, with no settings, and a ping.
const (
	http2Hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	http2Ping  = "\x00\x00\x08\x06\x00\x00\x00\x00\x00" + "12345678"
)

// A client of gRPC keeps its connection for as long as it likes if it answers pings, also if it sends its own.
func TestServeKeepsClientsThatAreThere(t *testing.T) {
	for _, every := range []time.Duration{0, 10 * time.Second} { // the least that the client of Go can send
		synctest.Test(t, func(t *testing.T) {
			service := envoylimit.New(limitertest.NewLive(t).Limiter(nil), &envoylimit.Config{}, envoylimit.Options{})
			s, _, err := grpcServer(serveFlags{}, service)
			check.Must(t, err)
			listener, dials := newPiped(""), 0
			var serving sync.WaitGroup
			serving.Go(func() { _ = s.Serve(listener) })
			conn, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithIdleTimeout(0), grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: every,
					PermitWithoutStream: every > 0}),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					dials++
					return listener.dial(ctx)
				}))
			check.Must(t, err)
			for range 3 {
				_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				if err != nil || dials != 1 {
					t.Errorf("pings every %v: %v, %d connections", every, err, dials)
				}
				time.Sleep(time.Hour)
			}
			_ = conn.Close()
			s.Stop()
			serving.Wait()
		})
	}
}

// Servers report their addresses only if all of them listen.
func TestNoServerReportsIfOneCannotListen(t *testing.T) {
	var errs strings.Builder
	a := &app{errs: &errs, listener: func(_, address string) (net.Listener, error) {
		return newPiped(address), map[string]error{"taken": syscall.EADDRINUSE}[address]
	}}
	err := a.runServers(t.Context(), server{says: "gRPC on %s"}, server{says: "HTTP on %s", address: "taken"})
	check.Is(t, err, syscall.EADDRINUSE, "error")
	check.Equal(t, errs.String(), "", "reported")
}
