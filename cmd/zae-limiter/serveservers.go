package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
)

// healthNames are the services with a health status. envoyproxy/ratelimit calls itself "ratelimit".
var healthNames = []string{"", "ratelimit", ratelimit.RateLimitService_ServiceDesc.ServiceName}

// grpcServer returns the gRPC server, with health and reflection.
func grpcServer(f serveFlags, service *envoylimit.Service) (*grpc.Server, *health.Server, error) {
	opts := []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(10 * time.Second), // of a handshake
		grpc.MaxConcurrentStreams(1000),          // of a connection
	}
	if f.cert != "" {
		if _, err := f.tls(); err != nil {
			return nil, nil, err
		}
		opts = append(opts, grpc.Creds(credentials.NewTLS(&tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.tls() },
			MinVersion:         tls.VersionTLS12,
		})))
	}
	s, h := grpc.NewServer(opts...), health.NewServer()
	service.Register(s)
	grpc_health_v1.RegisterHealthServer(s, h)
	for _, name := range healthNames {
		h.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	reflection.Register(s)
	return s, h, nil
}

// tls returns the present content of the files.
func (f serveFlags) tls() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	if f.clientCA == "" {
		return c, nil
	}
	authorities, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("--tls-client-ca %s has no certificate", f.clientCA)
	}
	return c, nil
}

// httpServer returns the HTTP server of serve. Envoy's path needs a service.
func httpServer(service *envoylimit.Service, own *api, m *metrics) *http.Server {
	mux := http.NewServeMux()
	if service != nil {
		mux.Handle("/json", service)
	}
	own.register(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	mux.Handle("GET /metrics", m.handler())
	return bounded(mux, 30*time.Second)
}

// bounded returns a server that cuts slow clients. write bounds how long an answer may take.
func bounded(h http.Handler, write time.Duration) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: write, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
}

// server is one of the servers of a command.
type server struct {
	says, address string // says is the format of the line with the address
	serve         func(net.Listener) error
	stop          func(context.Context) error // returns when running requests are answered; the context ends the wait
}

func serverOf(says, address string, s *http.Server) server {
	return server{says, address, s.Serve, func(ctx context.Context) error {
		err := s.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = s.Close()
		}
		return err
	}}
}

// servers returns the servers of serve.
func (f serveFlags) servers(service *envoylimit.Service, own *api, m *metrics) (all []server, err error) {
	if f.grpc != "" {
		s, health, err := grpcServer(f, service)
		if err != nil {
			return nil, err
		}
		all = append(all, server{"gRPC on %s", f.grpc, s.Serve, func(ctx context.Context) error {
			health.Shutdown()
			defer context.AfterFunc(ctx, s.Stop)()
			s.GracefulStop()
			return nil
		}})
	}
	if f.http != "" {
		all = append(all, serverOf("HTTP on %s", f.http, httpServer(service, own, m)))
	}
	return all, nil
}

// stopWithin is how long running requests may still take.
const stopWithin = 10 * time.Second

// runServers serves until ctx ends or a server fails, and stops all servers. All of them listen
// before one serves.
func (a *app) runServers(ctx context.Context, all ...server) error {
	a.progress.end() // startup is over
	a.progress = nil
	listens := make([]net.Listener, len(all))
	for i, s := range all {
		l, err := a.listener("tcp", s.address)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }() // if another cannot listen
		listens[i] = l
	}
	ended := make(chan error, len(all))
	for i, s := range all {
		a.say(s.says, listens[i].Addr())
		go func() { ended <- s.serve(listens[i]) }()
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-ended:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	var stopping errgroup.Group
	for _, s := range all {
		stopping.Go(func() error { return s.stop(ctx) })
	}
	return errors.Join(failed, stopping.Wait())
}
