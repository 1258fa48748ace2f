// Package limiter limits the rate of what clients do, for fleets that share no
// server: token buckets live in one DynamoDB table and every process talks to
// that table directly.
//
// A [Limit] is a rule, an entity is who is limited, a resource is what is used.
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
//	Reserve   as Wait, but be told how long to wait, and wait yourself
//
// # Words
//
//	limit     a rule: so many tokens at most, so many more per period
//	entity    who is limited; resource: what is used
//	bucket    what is stored of all limits of an entity and resource
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
// policy; other buckets are not concerned. Options.Observe is told of every outcome, and of
// all else that happens, for logs, metrics and traces.
//
// # What an acquire costs
//
// The limiter remembers the last image of each bucket. From that it picks the write that is
// right for what the bucket holds by now. So a warm acquire is one UpdateItem, one write
// unit, and no read. What the image cannot cover is denied without a call, until the image is
// a second old. A write that is refused brings a new image back, and the request is decided
// again from that, without a read. A bucket of which nothing is remembered is read with its
// limits, eventually consistent. Before a bucket is created, its shard 1 is read, which may still
// exist where somebody has deleted shard 0.
//
// # Guarantees
//
// Take any limit and any two instants. What is granted between them is at most the capacity,
// plus what is refilled in that time, plus what was given back. This holds for any number of
// processes, goroutines and shards, and across splits, expiry, changed limits, crashes and
// lost answers. Clocks that disagree add at most what is refilled in the difference. A clock
// that is off DynamoDB's by more than about a second is corrected. No refill is lost while a
// bucket fills. Near full, a busy fleet may for a while show too little (see Options.Slack).
//
// A bucket that is written to more than a thousand times a second is split into shards, each
// with its share of every limit. What no single shard covers is taken from several. A cost
// above the capacity is [ErrTooLarge].
//
// An entity may have a parent, and cascade to it: then what it takes is charged to both, or to
// neither. Package admin stores parents and flags.
package limiter
