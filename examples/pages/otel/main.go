// The program of docs/metrics.md: a limiter that is measured and traced.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/otellimit"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	spans, err := stdouttrace.New() // or otlptracegrpc.New(ctx), to a collector
	if err != nil {
		return err
	}
	traces := trace.NewTracerProvider(trace.WithBatcher(spans))
	defer traces.Shutdown(ctx)
	points, err := stdoutmetric.New() // or otlpmetricgrpc.New(ctx)
	if err != nil {
		return err
	}
	metrics := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(points)))
	defer metrics.Shutdown(ctx) // sends what is left

	obs, err := otellimit.New(otellimit.Options{MeterProvider: metrics, TracerProvider: traces})
	if err != nil {
		return err
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", &limiter.Options{Observe: obs.Observe})
	if err != nil {
		return err
	}
	defer l.Close(ctx) // before what is left is sent
	fmt.Println(l.Allow(ctx, "acme", limiter.PerSecond("rps", 10)))
	return nil
}
