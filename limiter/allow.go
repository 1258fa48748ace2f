package limiter

import "context"

// AllowResource is the resource that [Limiter.Allow] takes from.
const AllowResource = "default"

// Allow takes one token from each limit of an entity, all or nothing, and returns nil if
// they were there. It is Acquire with a cost of one of each limit, on the resource
// [AllowResource], for callers that have one thing to limit and settle nothing: the
// tokens stay taken.
//
//	err := l.Allow(ctx, "acme", limiter.PerSecond("rps", 10), limiter.PerDay("rpd", 10_000))
//
// At least one limit is needed, and none may be named twice; limits that are stored are
// for Acquire. Errors, blocking and price are as of Acquire: a denial is a
// [*LimitError] that says when to try again. Under PolicyAllow and PolicyLocal a table
// that does not answer does not make it an error.
func (l *Limiter) Allow(ctx context.Context, entity string, limits ...Limit) error {
	costs := make(Costs, len(limits))
	for _, limit := range limits {
		costs[limit.Name] = 1
	}
	_, err := l.Acquire(ctx, Request{Entity: entity, Resource: AllowResource, Costs: costs, Limits: limits})
	return err
}
