package main

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestServer(t *testing.T) {
	table := limitertest.New(t)
	if err := table.Admin("").SetLimits(t.Context(), admin.Scope{}, limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := server(table.Limiter(nil))
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted, codes.Unauthenticated} {
		ctx := t.Context()
		if want != codes.Unauthenticated {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", "demo")
		}
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if got := status.Code(err); got != want {
			t.Errorf("call %d: %v, want %v", i, got, want)
		}
	}
}
