package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func (o *Observer) measure(ctx context.Context, e limiter.Event) {
	var more []attribute.KeyValue
	if o.attributes != nil {
		more = o.attributes(e)
	}
	with := func(own ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(own, more...)...))
	}
	event, outcome := keyEvent.String(e.Kind.String()), keyOutcome.String(e.Outcome())
	switch e.Kind {
	case limiter.EventAcquire:
		if e.Policy != limiter.PolicyDefault {
			o.acquire.Record(ctx, e.Elapsed.Seconds(), with(outcome, keyPolicy.String(e.Policy.String())))
		} else {
			o.acquire.Record(ctx, e.Elapsed.Seconds(), with(outcome))
		}
		if denied, ok := errors.AsType[*limiter.LimitError](e.Err); ok {
			o.denials.Add(ctx, 1, with(keyLimit.String(denied.Limit)))
		}
		for _, s := range e.Overdrawn {
			o.overdrawn.Add(ctx, 1, with(keyLimit.String(s.Limit)))
		}
	case limiter.EventCommit, limiter.EventRollback:
		o.settle.Record(ctx, e.Elapsed.Seconds(), with(event, outcome))
	case limiter.EventBreaker:
		var open int64
		if e.Open {
			open = 1
		}
		o.open.Record(ctx, open, with())
	case limiter.EventClock:
		o.correction.Record(ctx, e.Clock.After.Seconds(), with())
	default:
		o.events.Add(ctx, 1, with(event))
	}
	if e.Writes > 0 {
		o.writes.Add(ctx, int64(e.Writes), with(event))
	}
	if e.Err != nil {
		return
	}
	count := func(costs limiter.Costs) {
		for limit, n := range costs {
			if n != 0 {
				o.tokens.Add(ctx, n, with(keyLimit.String(limit)))
			}
		}
	}
	count(e.Costs)
	for _, p := range e.Also {
		count(p.Costs)
	}
}
