package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Scope is the name of the meter and of the tracer.
const Scope = "github.com/zeroae/zae-limiter-go/otellimit"

// Attributes of measurements and spans.
const (
	keyEvent      = attribute.Key("zae_limiter.event")
	keyOutcome    = attribute.Key("zae_limiter.outcome")
	keyPolicy     = attribute.Key("zae_limiter.policy")
	keyLimit      = attribute.Key("zae_limiter.limit")
	keyEntity     = attribute.Key("zae_limiter.entity")
	keyResource   = attribute.Key("zae_limiter.resource")
	keyWrites     = attribute.Key("zae_limiter.writes")
	keyShards     = attribute.Key("zae_limiter.shards")
	keyDeniedBy   = attribute.Key("zae_limiter.denied_by")
	keyRetryAfter = attribute.Key("zae_limiter.retry_after_ms")
)

// Options are the settings of an [Observer]. The zero value means all defaults.
type Options struct {
	// MeterProvider and TracerProvider default to the global ones. Providers of the noop packages
	// turn metrics or traces off.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Attributes adds attributes to the measurements of an event: its resource, for example, if
	// there are few. Every combination of values is a series of its own, so never add the entity.
	// It must be quick. Nil: none.
	Attributes func(limiter.Event) []attribute.KeyValue
}

// Observer measures and traces a limiter's events. It is safe for concurrent use, and for any
// number of limiters.
type Observer struct {
	attributes func(limiter.Event) []attribute.KeyValue
	tracer     trace.Tracer

	acquire, settle         metric.Float64Histogram
	writes, denials, events metric.Int64Counter
	overdrawn               metric.Int64Counter
	tokens                  metric.Int64UpDownCounter
	open                    metric.Int64Gauge
	correction              metric.Float64Gauge
}

// New returns an observer, whose Observe method is for limiter.Options.Observe. The error comes
// from a meter that does not accept an instrument.
func New(o Options) (*Observer, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	obs := &Observer{attributes: o.Attributes, tracer: o.TracerProvider.Tracer(Scope)}
	if err := obs.instruments(o.MeterProvider.Meter(Scope)); err != nil {
		return nil, err
	}
	return obs, nil
}

// durations are where the buckets of the histograms end, seconds: a denial from memory
// takes microseconds, a write milliseconds, one that is repeated or waits longer.
var durations = []float64{.0001, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60}

func (o *Observer) instruments(m metric.Meter) error {
	var all []error
	histogram := func(name, text string) metric.Float64Histogram {
		h, err := m.Float64Histogram("zae_limiter."+name, metric.WithUnit("s"), metric.WithDescription(text),
			metric.WithExplicitBucketBoundaries(durations...))
		all = append(all, err)
		return h
	}
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter("zae_limiter."+name, metric.WithUnit(unit), metric.WithDescription(text))
		all = append(all, err)
		return c
	}
	o.acquire = histogram("acquire.duration", "How long acquires took.")
	o.settle = histogram("settle.duration", "How long commits and rollbacks took.")
	o.writes = counter("writes", "{write}", "Writes that were sent to the table.")
	o.denials = counter("denials", "{denial}", "Acquires that a limit denied.")
	o.overdrawn = counter("overdrawn", "{acquire}", "Acquires that a soft limit in debt let pass.")
	o.events = counter("events", "{event}", "What else happened: looks, refused writes, splits, merges and the like.")
	var err error
	o.tokens, err = m.Int64UpDownCounter("zae_limiter.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that were taken, less those given back."))
	all = append(all, err)
	o.open, err = m.Int64Gauge("zae_limiter.breaker.open", metric.WithUnit("1"),
		metric.WithDescription("1 while calls are not sent, because several in a row had no answer."))
	all = append(all, err)
	o.correction, err = m.Float64Gauge("zae_limiter.clock.correction", metric.WithUnit("s"),
		metric.WithDescription("What is added to the system's clock."))
	return errors.Join(append(all, err)...)
}

// Observe takes an event, with the context of its call. It blocks only as long as the providers do.
func (o *Observer) Observe(ctx context.Context, e limiter.Event) {
	o.measure(ctx, e)
	o.trace(ctx, e)
}
