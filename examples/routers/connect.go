package routers

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

const procedure = "/grpc.health.v1.Health/Check" // of your service

// Connect is a service of Connect, whose handlers are net/http's.
func Connect(limit func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(procedure, limit(connect.NewUnaryHandler(procedure,
		func(context.Context, *connect.Request[grpc_health_v1.HealthCheckRequest]) (
			*connect.Response[grpc_health_v1.HealthCheckResponse], error) {
			return connect.NewResponse(&grpc_health_v1.HealthCheckResponse{
				Status: grpc_health_v1.HealthCheckResponse_SERVING,
			}), nil
		})))
	return mux
}

var errorWriter = connect.NewErrorWriter()

// ConnectDenied is for httplimit.Options.Denied. Clients take a bare 429 for "unavailable"; this is
// "resource exhausted" to clients of Connect, gRPC and gRPC-Web.
func ConnectDenied(w http.ResponseWriter, r *http.Request, d httplimit.Denial) {
	_ = errorWriter.Write(w, r, connect.NewError(connect.CodeResourceExhausted, d))
}
