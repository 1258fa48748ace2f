// Package otellimit turns the events of a limiter into metrics and traces of OpenTelemetry.
//
//	obs, err := otellimit.New(otellimit.Options{})
//	…
//	l, err := limiter.Open(ctx, db, "limits", &limiter.Options{Observe: obs.Observe})
//
// # Metrics
//
//	zae_limiter.acquire.duration   s         acquires, by outcome and policy
//	zae_limiter.settle.duration    s         commits and rollbacks, by event and outcome
//	zae_limiter.writes             {write}   writes sent, by event
//	zae_limiter.tokens             {token}   tokens taken less those given back, by limit
//	zae_limiter.denials            {denial}  denied acquires, by the limit that denies
//	zae_limiter.overdrawn          {acquire} acquires granted by a soft limit in debt, by the soft limit
//	zae_limiter.events             {event}   all other events, by event
//	zae_limiter.breaker.open       1         1 while calls are not sent
//	zae_limiter.clock.correction   s         the correction of the system's clock
//
// The count of a histogram is how often it happened. [limiter.Event.Outcome] names the outcomes;
// the policy is there only where it has let an acquire through. Neither entities nor resources are
// attributes, because a series per value is expensive; see [Options.Attributes]. Tokens of an
// acquire whose answer was lost are not counted.
//
// # Traces
//
// Each acquire, commit and rollback is a span "limiter acquire", "limiter commit", "limiter
// rollback" under the caller's, with entity, resource, outcome and writes. It is an error only if
// there was no decision or no answer; a denial says which limit denied and, if that helps, how long
// to wait. The span is made when the call is over, so the spans of an instrumented DynamoDB client
// are its siblings. Other events are added to the caller's span.
//
// It is a module of its own, because it brings go.opentelemetry.io/otel.
package otellimit
