// The program of docs/metrics.md: metrics of the limiter for Prometheus, and its spans on the standard output.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/otellimit"
)

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	obs, err := observer()
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", &limiter.Options{Observe: obs.Observe})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Allow(ctx, "acme", limiter.PerSecond("rps", 10)))
	log.Fatal(http.ListenAndServe("localhost:9464", promhttp.Handler()))
}

func observer() (*otellimit.Observer, error) {
	scraped, err := prometheus.New() // or a PeriodicReader of otlpmetricgrpc.New, to a collector
	if err != nil {
		return nil, err
	}
	spans, err := stdouttrace.New() // or otlptracegrpc.New
	if err != nil {
		return nil, err
	}
	return otellimit.New(otellimit.Options{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(scraped)),
		TracerProvider: trace.NewTracerProvider(trace.WithBatcher(spans)),
	})
}
