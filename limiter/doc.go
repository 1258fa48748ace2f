// Package limiter limits how fast clients may do things, in fleets that share no server: token
// buckets live in one DynamoDB table, and every process talks to that table directly.
//
// A [Limit] is a rule for an entity (a tenant, an API key) that uses a resource (a model, an
// endpoint). [Limiter.Acquire] takes tokens from all limits of an entity and resource in one
// conditional write, all or nothing, and returns a [Lease]:
//
//	lease, err := l.Acquire(ctx, limiter.Request{
//		Entity: "acme", Resource: "gpt-4",
//		Costs: limiter.Costs{"rpm": 1, "tpm": 800},
//	})
//
// # Which method
//
// Most callers use [Limiter.Do]: it acquires, calls a function with the lease, and ends the lease
// correctly, even if the function fails or panics. The other methods are for work that does not fit
// into a function.
//
//	Do        acquire, work, and commit; give everything back if the work returns an error
//	Allow     take one token of each limit; there is no lease to end
//	Acquire   take the costs now, or be denied; end the lease yourself:
//	          Settle records the real cost of the work, Commit writes it,
//	          Rollback, for defer, gives everything back if nothing was settled
//	Wait      like Acquire, but wait until the tokens are there; first come, first served
//	Reserve   like Wait, but return how long to wait, and wait yourself
//
// # Words
//
//	limit     a rule: at most so many tokens, and so many more per period
//	entity    the caller that is limited; resource: the thing it uses
//	bucket    the stored state of all limits of an entity and resource
//	level     the tokens of a limit that a bucket holds; below zero it is a debt
//	cost      the tokens of a limit that one request takes
//	charge    the one conditional write that takes costs and credits refill
//	shard     a part of a bucket that is too busy for one item
//	lease     the result of a granted acquire
//	settle    replace a lease's costs with the real ones
//	denied    the tokens are not there; only DynamoDB throttles
//
// # Outcomes
//
// Besides success there are three outcomes, each with an error of its own:
//
//	denied       [ErrLimited], a [*LimitError] with the exact wait
//	unavailable  [ErrUnavailable]: no decision, nothing was written
//	unknown      [ErrUnknown]: the answer was lost, tokens may have been taken
//
// For the last two a [Policy] decides: block, allow, or grant from a share of each limit that this
// process holds itself. A bucket that cannot be read is [ErrUnreadable] under every policy; other
// buckets are not affected. Options.Observe is called for every outcome and every other event, for
// logs, metrics and traces.
//
// # Cost of an acquire
//
// The limiter remembers the last image of each bucket, and picks the write that fits the current
// level. So a warm acquire is one UpdateItem, one write unit, and no read. A request that the image
// cannot cover is denied without a call, until the image is a second old. A refused write returns a
// new image, and the request is decided again from that, without a read. A bucket that is not
// remembered is read together with its limits, eventually consistent. Before a bucket is created,
// its shard 1 is read: it may still exist if somebody has deleted shard 0.
//
// # Guarantees
//
// Take any limit and any two instants. The tokens granted between them are at most the capacity,
// plus the refill of that time, plus tokens given back. This holds for any number of processes,
// goroutines and shards, and across splits, expiry, changed limits, crashes and lost answers.
// Clocks that disagree add at most the refill of the difference. A clock that is off from
// DynamoDB's by more than about a second is corrected. No refill is lost while a bucket fills. Near
// full, a busy fleet may see a level that is too low for a while (see Options.Slack).
//
// A bucket with more than a thousand writes a second is split into shards, each with its share of
// every limit. A cost that no single shard covers is taken from several. A cost above the capacity
// is [ErrTooLarge].
//
// An entity may have a parent, and cascade to it: then its costs are charged to both, or to
// neither. Package admin stores parents and flags.
package limiter
