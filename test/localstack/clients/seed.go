package clients

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Stored returns limits in stored form.
func Stored(limits ...limiter.Limit) []bucket.Limit {
	out := make([]bucket.Limit, len(limits))
	for i, l := range limits {
		out[i] = validate.Limit[limiter.Calendar](l).Stored()
	}
	return out
}

// Full returns a bucket before its first request, with one shard: full, with a write meter of meter
// writes a second, or zero for DynamoDB's own.
func Full(namespace, entity, resource string, limits []limiter.Limit, meter, now int64) table.Shard {
	b := table.Shard{Namespace: namespace, Entity: entity, Resource: resource,
		State: bucket.New(Stored(limits...), 0, 1, now)}
	if meter > 0 {
		sl := &b.State.Slots[b.State.Index(bucket.WCU)]
		sl.Capacity, sl.Amount, sl.Period, sl.Tokens = meter*bucket.Milli, meter*bucket.Milli, 1000, meter*bucket.Milli
	}
	return b
}
