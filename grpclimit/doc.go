// Package grpclimit limits the calls of a gRPC server.
//
//	o := grpclimit.Options{Request: func(ctx context.Context, c grpclimit.Call) (limiter.Request, error) {
//		return limiter.Request{
//			Entity: tenantOf(ctx), Resource: "api", Costs: limiter.Costs{"rpm": 1},
//		}, nil
//	}}
//	srv := grpc.NewServer(
//		grpc.UnaryInterceptor(grpclimit.Unary(l, o)),
//		grpc.StreamInterceptor(grpclimit.Stream(l, o)),
//	)
//
// A denied call ends in RESOURCE_EXHAUSTED with the details google.rpc.RetryInfo, when to try again
// if that helps, and google.rpc.QuotaFailure, which limits denied; [RetryAfter] reads the first on
// the client's side. A granted one has its lease in the context ([Lease]), to settle its real cost,
// or to charge more while a stream goes on.
//
// Never take the entity from a value that a client may choose freely: each new name is a full
// bucket, so a flood of made-up keys passes, and is paid for. Authenticate in an interceptor before
// this one.
//
// It is a module of its own, because it brings google.golang.org/grpc.
package grpclimit
