package limiter

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// refusal is the error of a decision that grants nothing.
func refusal(d decide.Decision) error {
	if d.Do == decide.Never {
		return tooLarge(d)
	}
	return limitError(d.Want, d.Denial)
}

// limitError is a denial as the caller gets it.
func limitError(w decide.Want, d decide.Denial) *LimitError {
	e := &LimitError{
		Entity: w.Name.Entity, Resource: w.Name.Resource, Limit: d.Limit, RetryAfter: wait(0, d.After),
		Estimated: d.Estimated, full: d.Full, Statuses: statuses(w.Name, d.Levels),
	}
	for i, c := range w.Costs {
		if c.Limit.Name == d.Limit {
			e.Wanted, e.Remaining = c.Milli/bucket.Milli, e.Statuses[i].Remaining
		}
	}
	return e
}

// tooLarge explains a request that no shard can ever hold.
func tooLarge(d decide.Decision) error {
	cost, _ := table.Find(d.Want.Costs, d.Limit)
	share := bucket.Share(cost.Largest().Limit.Capacity, 0, d.Count) // no shard has more
	cause := fmt.Errorf("cost of %q is %d, want at most the %s tokens that one of %d shards holds",
		d.Limit, cost.Milli/bucket.Milli, bucket.Tokens(share), d.Count)
	return &opError{"acquire", d.Want.Name, ErrTooLarge, cause}
}
