package otellimit

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func (o *Observer) trace(ctx context.Context, e limiter.Event) {
	switch e.Kind {
	case limiter.EventAcquire, limiter.EventCommit, limiter.EventRollback:
		o.span(ctx, e)
	default:
		if s := trace.SpanFromContext(ctx); s.IsRecording() {
			s.AddEvent("limiter "+e.Kind.String(), trace.WithAttributes(described(e)...))
		}
	}
}

// span makes the span of a call that is over.
func (o *Observer) span(ctx context.Context, e limiter.Event) {
	end := time.Now()
	_, s := o.tracer.Start(ctx, "limiter "+e.Kind.String(), trace.WithTimestamp(end.Add(-e.Elapsed)),
		trace.WithSpanKind(trace.SpanKindClient))
	defer s.End(trace.WithTimestamp(end))
	if !s.IsRecording() {
		return
	}
	s.SetAttributes(described(e)...)
	s.SetAttributes(keyOutcome.String(e.Outcome()), keyWrites.Int(e.Writes))
	if e.Policy != limiter.PolicyDefault {
		s.SetAttributes(keyPolicy.String(e.Policy.String()))
	}
	if denied, ok := errors.AsType[*limiter.LimitError](e.Err); ok {
		s.SetAttributes(keyDeniedBy.String(denied.Entity), keyLimit.String(denied.Limit))
		if !denied.Never() {
			s.SetAttributes(keyRetryAfter.Int64(denied.RetryAfter.Milliseconds()))
		}
		return
	}
	if e.Err != nil && !decided(e.Err) && !errors.Is(e.Err, limiter.ErrCanceled) {
		s.RecordError(e.Err)
		s.SetStatus(codes.Error, e.Outcome())
	}
}

// decided reports whether an error is a decision other than a denial: the costs can never be
// granted, or the resource is switched off.
func decided(err error) bool {
	return errors.Is(err, limiter.ErrTooLarge) || errors.Is(err, limiter.ErrDisabled)
}

func described(e limiter.Event) []attribute.KeyValue {
	var out []attribute.KeyValue
	if e.Entity != "" {
		out = append(out, keyEntity.String(e.Entity), keyResource.String(e.Resource))
	}
	if e.Shards != 0 {
		out = append(out, keyShards.Int(e.Shards))
	}
	return out
}
