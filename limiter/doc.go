// Package limiter limits the rate of what clients do, for fleets that share no
// server: token buckets live in one DynamoDB table and every process talks to
// that table directly.
//
// A [Limit] is a rule for an entity (a tenant, an API key) that uses a resource (a model, an endpoint).
// [Limiter.Acquire] takes tokens from all limits of an entity and resource in one
// conditional write, all or nothing, and returns a [Lease]:
//
//	lease, err := l.Acquire(ctx, limiter.Request{
//		Entity: "acme", Resource: "gpt-4",
//		Costs: limiter.Costs{"rpm": 1, "tpm": 800},
//	})
//
// # Which method
//
// Most callers use [Limiter.Do]: it acquires, calls a function with the lease, and ends
// the lease rightly, also when the function fails or panics. The others are for those
// whose work does not fit in a function.
//
//	Do        acquire, work, and commit; give everything back if the work returns an error
//	Allow     take one token of each limit; there is no lease to end
//	Acquire   take the costs now, or be denied; end the lease yourself:
//	          Settle says what the work has really cost, Commit writes it,
//	          Rollback, for defer, gives everything back if nothing was settled
//	Wait      as Acquire, but wait until the tokens are there; first come, first served
//	Reserve   as Wait, but return how long to wait, and wait yourself
//
// # Words
//
//	limit     a rule: so many tokens at most, so many more per period
//	entity    the caller that is limited; resource: the thing that it uses
//	bucket    the stored state of all limits of an entity and resource
//	level     what a bucket holds of a limit; below zero it is a debt
//	cost      the tokens of a limit that one request takes
//	charge    the one conditional write that takes costs and credits refill
//	shard     a part of a bucket that is too busy for one item
//	lease     what a granted acquire returns
//	settle    make a lease's costs what they really were
//	denied    the tokens are not there; throttled is only what DynamoDB does to us
//
// # Outcomes
//
// There are three besides success, and they are three errors:
//
//	denied       [ErrLimited], a [*LimitError] with the exact wait
//	unavailable  [ErrUnavailable]: no decision, nothing was written
//	unknown      [ErrUnknown]: the answer was lost, tokens may have been taken
//
// A [Policy] decides about the last two: block, allow, or grant from a share of each limit
// that this process holds itself. A bucket that cannot be read is [ErrUnreadable] under every
// policy; other buckets are not concerned. Options.Observe is called for every outcome, and for
// all else that happens, for logs, metrics and traces.
//
// # Cost of an acquire
//
// The limiter remembers the last image of each bucket, and picks the write that fits its level
// by now. So a warm acquire is one UpdateItem, one write unit, and no read. A request that the
// image cannot cover is denied without a call, until the image is a second old. A refused
// write brings a new image back, and the request is decided again from that, without a read. A
// bucket that is not remembered is read with its limits, eventually consistent. Before a bucket
// is created, its shard 1 is read, which may still exist where somebody has deleted shard 0.
//
// # Guarantees
//
// Take any limit and any two instants. The tokens granted between them are at most the capacity,
// plus the refill of that time, plus tokens given back. This holds for any number of
// processes, goroutines and shards, and across splits, expiry, changed limits, crashes and
// lost answers. Clocks that disagree add at most the refill of the difference. A clock
// that is off DynamoDB's by more than about a second is corrected. No refill is lost while a
// bucket fills. Near full, a busy fleet may for a while show too little (see Options.Slack).
//
// A bucket that is written to more than a thousand times a second is split into shards, each
// with its share of every limit. A cost that no single shard covers is taken from several. A cost
// above the capacity is [ErrTooLarge].
//
// An entity may have a parent, and cascade to it: then its costs are charged to both, or to
// neither. Package admin stores parents and flags.
package limiter
