package otellimit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/otellimit"
)

// A denial that no wait helps names none.
func TestNeverIsNoWait(t *testing.T) {
	r := newRig(t, otellimit.Options{})
	l := limitertest.New(t).Limiter(&limiter.Options{Observe: r.Observe})
	_, err := l.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: "gpt", Costs: limiter.Costs{"images": 1},
		Limits: []limiter.Limit{limiter.Blocked("images")}})
	spans := r.spans.GetSpans()
	if len(spans) != 1 || !errors.Is(err, limiter.ErrLimited) {
		t.Fatal(spans, err)
	}
	const want = "denied_by=acme,entity=acme,limit=images,outcome=denied,resource=gpt,writes=0"
	check.Equal(t, show(attribute.NewSet(spans[0].Attributes...)), want, "the span says")
}

// rig is an observer with everything that it exports in memory.
type rig struct {
	t      *testing.T
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
	*otellimit.Observer
}

func newRig(t *testing.T, o otellimit.Options) *rig {
	r := &rig{t: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
	o.MeterProvider, o.TracerProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader)), r.tracer
	var err error
	if r.Observer, err = otellimit.New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

func show(set attribute.Set) string {
	var out []string
	for _, kv := range set.ToSlice() {
		out = append(out, strings.TrimPrefix(string(kv.Key), "zae_limiter.")+"="+kv.Value.String())
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// series returns the value of every series; of a histogram its count and its sum.
func (r *rig) series() map[string]string {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	check.Must(r.t, r.reader.Collect(context.Background(), &all))
	out := map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		put := func(set attribute.Set, value any) {
			name, _ := strings.CutPrefix(m.Name, "zae_limiter.")
			out[name+"{"+show(set)+"}"] = fmt.Sprint(value)
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				put(p.Attributes, p.Value)
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				put(p.Attributes, p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				put(p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				put(p.Attributes, fmt.Sprintf("%d in %gs", p.Count, p.Sum))
			}
		default:
			r.t.Errorf("%s is a %T", m.Name, m.Data)
		}
	}
	return out
}

func (r *rig) wants(want map[string]string) {
	r.t.Helper()
	got := r.series()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		check.Equal(r.t, got[name], want[name], name)
		delete(got, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		r.t.Errorf("%s is %q, and nobody expects it", name, got[name])
	}
}

var ask = limiter.Request{
	Entity: "acme", Resource: "gpt", Costs: limiter.Costs{"rpm": 1, "tpm": 40},
	Limits: []limiter.Limit{limiter.PerMinute("rpm", 2), limiter.PerMinute("tpm", 100)},
}

// A limiter tells, and metrics add up: in a bubble, where nothing takes any time but
// what waits.
func TestMetricsOfALimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otellimit.Options{})
		table := limitertest.NewLive(t)
		l := table.Limiter(&limiter.Options{Observe: r.Observe})
		settled, err := l.Acquire(t.Context(), ask)
		check.Must(t, err)
		check.Must(t, errors.Join(settled.Settle(limiter.Costs{"tpm": 15}), settled.Commit(t.Context())))
		back, err := l.Acquire(t.Context(), ask)
		check.Must(t, err)
		check.MustBe(t, check.Err(l.Acquire(t.Context(), ask)), limiter.ErrLimited)
		check.Must(t, back.Rollback(t.Context()))
		table.Fail(limiter.ErrUnavailable)
		open := ask
		open.OnUnavailable = limiter.PolicyAllow
		check.Must(t, check.Err(l.Acquire(t.Context(), open)))
		r.wants(map[string]string{
			"acquire.duration{outcome=ok}":                       "2 in 0s",
			"acquire.duration{outcome=denied}":                   "1 in 0s",
			"acquire.duration{outcome=unavailable,policy=allow}": "1 in 0s",
			"settle.duration{event=commit,outcome=ok}":           "1 in 0s",
			"settle.duration{event=rollback,outcome=ok}":         "1 in 0s",
			"writes{event=acquire}":                              "3",
			"writes{event=commit}":                               "1",
			"writes{event=rollback}":                             "1",
			"tokens{limit=rpm}":                                  "1",
			"tokens{limit=tpm}":                                  "15",
			"denials{limit=rpm}":                                 "1",
		})
	})
}

// Every kind of event leaves a trace in the metrics.
func TestMetricsOfEveryEvent(t *testing.T) {
	r := newRig(t, otellimit.Options{Attributes: func(e limiter.Event) []attribute.KeyValue {
		if e.Resource == "" {
			return nil
		}
		return []attribute.KeyValue{attribute.String("resource", e.Resource)}
	}})
	want := map[string]string{
		"acquire.duration{outcome=ok}":                               "1 in 1s",
		"settle.duration{event=commit,outcome=ok}":                   "1 in 1s",
		"settle.duration{event=commit,outcome=unknown,resource=gpt}": "1 in 1s",
		"settle.duration{event=rollback,outcome=ok}":                 "1 in 1s",
		"breaker.open{}":       "1",
		"overdrawn{limit=rpm}": "1",
		"overdrawn{limit=tpm}": "1",
		"clock.correction{}":   "-3",
	}
	for kind := limiter.EventAcquire; !strings.HasPrefix(kind.String(), "EventKind"); kind++ { // all there are
		e := limiter.Event{Kind: kind, Elapsed: time.Second, Open: kind == limiter.EventBreaker,
			Clock: limiter.ClockInfo{After: -3 * time.Second}}
		if kind == limiter.EventAcquire { // two soft limits have let it pass in debt
			e.Overdrawn = []limiter.Status{{Limit: "rpm"}, {Limit: "tpm"}}
		}
		r.Observe(t.Context(), e)
		switch kind {
		case limiter.EventAcquire, limiter.EventCommit, limiter.EventRollback, limiter.EventBreaker, limiter.EventClock:
		default:
			want["events{event="+kind.String()+"}"] = "1"
		}
	}
	lost := limiter.Event{Kind: limiter.EventCommit, Resource: "gpt", Costs: limiter.Costs{"rpm": 7},
		Err: limiter.ErrUnknown, Elapsed: time.Second}
	r.Observe(t.Context(), lost)
	free := limiter.Event{Kind: limiter.EventRollback, Costs: limiter.Costs{"rpm": 0}, Elapsed: time.Second}
	r.Observe(t.Context(), free) // no series of a limit of which nothing is taken
	want["settle.duration{event=rollback,outcome=ok}"] = "2 in 2s"
	r.wants(want)
	r.Observe(t.Context(), limiter.Event{Kind: limiter.EventBreaker})
	check.Equal(t, r.series()["breaker.open{}"], "0", "the breaker is closed and the gauge")
}

// Every instrument has the unit of what it measures, and says what that is.
func TestUnitsOfInstruments(t *testing.T) {
	r := newRig(t, otellimit.Options{})
	for kind := limiter.EventAcquire; !strings.HasPrefix(kind.String(), "EventKind"); kind++ { // all there are
		r.Observe(t.Context(), limiter.Event{Kind: kind, Writes: 1, Costs: limiter.Costs{"rpm": 1},
			Overdrawn: []limiter.Status{{Limit: "rpm"}}})
	}
	r.Observe(t.Context(), limiter.Event{Kind: limiter.EventAcquire, Err: &limiter.LimitError{Limit: "rpm"}})
	var all metricdata.ResourceMetrics
	check.Must(t, r.reader.Collect(t.Context(), &all))
	got := map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if got[m.Name] = m.Unit; !strings.HasSuffix(m.Description, ".") {
			t.Errorf("%s is described as %q, want a sentence", m.Name, m.Description)
		}
	}
	want := map[string]string{
		"zae_limiter.acquire.duration": "s", "zae_limiter.settle.duration": "s", "zae_limiter.clock.correction": "s",
		"zae_limiter.writes": "{write}", "zae_limiter.denials": "{denial}", "zae_limiter.events": "{event}",
		"zae_limiter.overdrawn": "{acquire}", "zae_limiter.tokens": "{token}", "zae_limiter.breaker.open": "1",
	}
	if !maps.Equal(got, want) {
		t.Errorf("units %v, want %v", got, want)
	}
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, otellimit.Options{})
		table := limitertest.NewLive(t)
		l := table.Limiter(&limiter.Options{Observe: r.Observe})
		ctx, caller := r.tracer.Tracer("caller").Start(t.Context(), "handle")
		begin := time.Now()
		for range 3 {
			lease, err := l.Acquire(ctx, ask) // the second is denied by rpm after this one
			if err == nil {
				err = errors.Join(lease.Settle(limiter.Costs{"tpm": 1}), lease.Commit(ctx))
			}
			if err != nil && !errors.Is(err, limiter.ErrLimited) {
				t.Fatal(err)
			}
		}
		waited, err := l.Wait(ctx, ask)
		if err != nil || waited == nil {
			t.Fatal(err)
		}
		table.Fail(limiter.ErrUnknown)
		if _, err := l.Acquire(ctx, ask); !errors.Is(err, limiter.ErrUnknown) && !errors.Is(err, limiter.ErrLimited) {
			t.Fatal(err)
		}
		r.Observe(ctx, limiter.Event{Kind: limiter.EventSplit, Entity: "acme", Resource: "gpt", Shards: 2})
		caller.End()

		spans := r.spans.GetSpans()
		var told []string
		for _, s := range spans[:len(spans)-1] {
			check.Equal(t, s.Parent.SpanID(), caller.SpanContext().SpanID(),
				"%s is not under the caller's span", s.Name)
			told = append(told, fmt.Sprintf("%s %s %s %v", s.Name, show(attribute.NewSet(s.Attributes...)),
				s.Status.Code, s.EndTime.Sub(s.StartTime)))
		}
		const who = "entity=acme"
		for i, want := range []string{
			"limiter acquire " + who + ",outcome=ok,resource=gpt,writes=1 Unset 0s", // which creates the bucket
			"limiter commit " + who + ",outcome=ok,resource=gpt,writes=1 Unset 0s",
			"limiter acquire " + who + ",outcome=ok,resource=gpt,writes=1 Unset 0s",
			"limiter commit " + who + ",outcome=ok,resource=gpt,writes=1 Unset 0s",
			"limiter acquire denied_by=acme," + who + ",limit=rpm,outcome=denied,resource=gpt,retry_after_ms=30000," +
				"writes=0 Unset 0s",
		} {
			if i >= len(told) || told[i] != want {
				t.Errorf("span %d of\n%s\nis not %s", i, strings.Join(told, "\n"), want)
			}
		}
		if wait := spans[5]; wait.StartTime != begin || wait.EndTime.Sub(wait.StartTime) != 30*time.Second {
			t.Errorf("the wait is from %v for %v", wait.StartTime, wait.EndTime.Sub(wait.StartTime))
		}
		if e := spans[len(spans)-1].Events; len(e) != 2 || e[0].Name != "limiter look" || e[1].Name != "limiter split" ||
			show(attribute.NewSet(e[1].Attributes...)) != "entity=acme,resource=gpt,shards=2" {
			t.Errorf("events of the caller's span: %+v", e)
		}
	})
}

func TestSpansOfFailures(t *testing.T) {
	r := newRig(t, otellimit.Options{})
	for err, want := range map[error]codes.Code{
		limiter.ErrUnavailable: codes.Error, limiter.ErrUnknown: codes.Error, limiter.ErrSetup: codes.Error,
		limiter.ErrInvalid: codes.Error, limiter.ErrCanceled: codes.Unset, error(&limiter.LimitError{}): codes.Unset,
		limiter.ErrTooLarge: codes.Unset, limiter.ErrDisabled: codes.Unset,
	} {
		r.spans.Reset()
		r.Observe(t.Context(), limiter.Event{Kind: limiter.EventAcquire, Err: fmt.Errorf("wrapped: %w", err),
			Policy: limiter.PolicyAllow})
		s := r.spans.GetSpans()[0]
		if s.Status.Code != want || (len(s.Events) == 1) != (want == codes.Error) {
			t.Errorf("%v: status %+v, events %+v", err, s.Status, s.Events)
		}
		set := show(attribute.NewSet(s.Attributes...))
		if !strings.Contains(set, "policy=allow") || strings.Contains(set, "entity") { // of nobody
			t.Errorf("%v: attributes %s", err, set)
		}
	}
}

// refusing provides a meter that takes no instrument of one kind.
type refusing struct {
	noop.MeterProvider
	kind string
}

func (r refusing) Meter(string, ...metric.MeterOption) metric.Meter {
	return refusingMeter{kind: r.kind}
}

type refusingMeter struct {
	noop.Meter
	kind string
}

func (r refusingMeter) err(kind string) error {
	if kind == r.kind {
		return errRefused
	}
	return nil
}

func (r refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, r.err("counter")
}

func (r refusingMeter) Int64UpDownCounter(
	string, ...metric.Int64UpDownCounterOption,
) (metric.Int64UpDownCounter, error) {
	return noop.Int64UpDownCounter{}, r.err("tokens")
}

func (r refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, r.err("histogram")
}

func (r refusingMeter) Int64Gauge(string, ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return noop.Int64Gauge{}, r.err("breaker")
}

func (r refusingMeter) Float64Gauge(string, ...metric.Float64GaugeOption) (metric.Float64Gauge, error) {
	return noop.Float64Gauge{}, r.err("clock")
}

var errRefused = errors.New("refused")

func TestProviders(t *testing.T) {
	for _, kind := range []string{"counter", "tokens", "histogram", "breaker", "clock"} {
		_, err := otellimit.New(otellimit.Options{MeterProvider: refusing{kind: kind}})
		check.Is(t, err, errRefused, "a meter that refuses a %s", kind)
	}
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	obs, err := otellimit.New(otellimit.Options{})
	check.Must(t, err)
	obs.Observe(t.Context(), limiter.Event{Kind: limiter.EventSplit})
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil || len(all.ScopeMetrics) != 1 {
		t.Errorf("the global provider has %+v, %v", all.ScopeMetrics, err)
	}
}
