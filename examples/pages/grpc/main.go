// The program of docs/http-grpc.md: a gRPC server of which each tenant may ask so often.
package main

import (
	"context"
	"log"
	"net"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

var tenants = map[string]string{"demo": "acme"} // by API key

// request says what a call takes. A status that it returns goes to the client.
func request(ctx context.Context, _ grpclimit.Call) (limiter.Request, error) {
	for _, key := range metadata.ValueFromIncomingContext(ctx, "x-api-key") {
		if tenant, ok := tenants[key]; ok {
			return limiter.Request{Entity: tenant, Resource: "api", Costs: limiter.Costs{"rpm": 1}}, nil
		}
	}
	return limiter.Request{}, status.Error(codes.Unauthenticated, "unknown key")
}

func server(l *limiter.Limiter) *grpc.Server {
	o := grpclimit.Options{Request: request}
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(grpclimit.Unary(l, o)),
		grpc.StreamInterceptor(grpclimit.Stream(l, o)),
	)
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer()) // your service
	return srv
}

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:9090")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server(l).Serve(listener))
}
