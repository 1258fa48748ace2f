package grpclimit_test

import (
	"context"

	"google.golang.org/grpc"

	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A server that limits unary calls and streams.
func ExampleUnary() {
	_ = func(l *limiter.Limiter, tenantOf func(context.Context) string) *grpc.Server {
		o := grpclimit.Options{Request: func(ctx context.Context, c grpclimit.Call) (limiter.Request, error) {
			return limiter.Request{Entity: tenantOf(ctx), Resource: "api", Costs: limiter.Costs{"rpm": 1}}, nil
		}}
		srv := grpc.NewServer(
			grpc.UnaryInterceptor(grpclimit.Unary(l, o)),
			grpc.StreamInterceptor(grpclimit.Stream(l, o)),
		)
		return srv
	}
}
