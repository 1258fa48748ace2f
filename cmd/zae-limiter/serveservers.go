package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
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

func httpServer(service *envoylimit.Service, own *api, m *metrics) *http.Server {
	mux := http.NewServeMux()
	if service != nil {
		mux.Handle("/json", service)
	}
	own.register(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	mux.Handle("GET /metrics", m.handler())
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
}
