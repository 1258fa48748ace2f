package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// leaseItem is one stored item that a lease has taken from.
type leaseItem struct {
	name  name
	key   item.Key
	shard int
	taken []table.Cost
}

// parent returns the item of the shard that this one merges into.
func (it leaseItem) parent() (leaseItem, bool) {
	ns, _, _, _, ok := table.ParseBucketPK(it.key.PK)
	if !ok || it.shard == 0 {
		return it, false
	}
	it.shard = bucket.SplitParent(it.shard)
	it.key = table.BucketKey(ns, it.name.entity, it.name.resource, it.shard)
	return it, true
}

// Lease is what a granted request holds. The tokens are taken already; a lease
// that is dropped keeps them taken. Adjust it when the real costs are known and
// Commit, or Rollback to give everything back. It is safe for concurrent use.
type Lease struct {
	limiter *Limiter
	name    name
	items   []leaseItem
	limits  []string // limits that can be adjusted, sorted
	status  []Status
	image   table.Bucket // as it was right after the charge; zero if that is not known
	cause   error        // why nothing was charged, nil when something was

	mu      sync.Mutex
	pending map[string]int64 // tokens by limit
	closed  bool
}

// learn takes over what the image of the written item says.
func (le *Lease) learn(b table.Bucket) {
	le.image = b
	le.limits = le.limits[:0]
	for i, sl := range b.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		le.limits = append(le.limits, sl.Name)
		le.status = append(le.status, Status{
			Limit: sl.Name, Capacity: sl.Capacity / bucket.Milli,
			Remaining: floorDiv(b.State.Slots[i].Tokens, bucket.Milli),
		})
	}
}

// Charged reports whether the lease has taken tokens. It is false for a lease
// granted by PolicyAllow without a decision; Adjust, Commit and Rollback of
// such a lease do nothing, and Cause says why.
func (le *Lease) Charged() bool { return le.cause == nil }

// Cause returns why a lease has charged nothing: an ErrUnavailable, or an
// ErrUnknown when the tokens may have been taken after all. It is nil for a
// lease that has.
func (le *Lease) Cause() error { return le.cause }

// Entity returns who was charged.
func (le *Lease) Entity() string { return le.name.entity }

// Resource returns what for.
func (le *Lease) Resource() string { return le.name.resource }

// Status returns the stored limits of the shard that was charged, as they were
// right after that, without the refill that is due.
func (le *Lease) Status() []Status { return slices.Clone(le.status) }

// Adjust adds to what the lease will settle: positive tokens are taken in
// addition, negative ones are given back. Every limit of the bucket can be
// adjusted, also those the request named no cost for. It performs no I/O and
// only fails for unknown limits, tokens beyond ±MaxTokens, and a closed lease;
// then nothing is changed. Commit writes the sum.
func (le *Lease) Adjust(tokens Costs) error {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.closed {
		return le.errClosed("adjust")
	}
	if !le.Charged() {
		return nil
	}
	next := maps.Clone(le.pending)
	if next == nil {
		next = make(map[string]int64, len(tokens))
	}
	for limit, n := range tokens {
		if !slices.Contains(le.limits, limit) {
			return invalid("Adjust limit", limit, fmt.Sprintf("one of %q", le.limits))
		}
		total := bucket.AddSat(next[limit], n)
		if n < -MaxTokens || n > MaxTokens || total < -MaxTokens || total > MaxTokens {
			return invalid(fmt.Sprintf("Adjust %q", limit), n, fmt.Sprintf("a sum of -%d to %d tokens", int64(MaxTokens), int64(MaxTokens)))
		}
		next[limit] = total
	}
	le.pending = next
	return nil
}

// Commit settles the accumulated adjustments, in one write per item charged;
// without any it does no I/O. It blocks until that is answered, bounded by ctx
// and Options.Timeout: pass a context that outlives the request if its caller
// may go away. After success the lease is closed. ErrUnavailable means nothing
// was written and Commit may be called again; after ErrUnknown the lease is
// closed, because the adjustment may have been written. A bucket that has been
// deleted meanwhile needs no settling.
func (le *Lease) Commit(ctx context.Context) error {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.closed {
		return le.errClosed("commit")
	}
	costs := make([]table.Cost, 0, len(le.pending))
	for _, limit := range slices.Sorted(maps.Keys(le.pending)) {
		if n := le.pending[limit]; n != 0 {
			costs = append(costs, table.Cost{Limit: limit, Milli: n * bucket.Milli})
		}
	}
	if len(costs) == 0 || !le.Charged() {
		le.closed = true
		return nil
	}
	parts := divide(costs, le.items)
	return le.settle(ctx, "commit", func(it leaseItem) []table.Cost { return parts[it.shard] })
}

// Rollback gives back everything the lease has taken, to the items it was taken
// from, and drops adjustments that were not committed. It is meant for the time
// after the caller has given up, so it ignores that ctx is done and is bounded
// by Options.Timeout only. Outcomes are those of Commit.
func (le *Lease) Rollback(ctx context.Context) error {
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.closed {
		return le.errClosed("rollback")
	}
	if !le.Charged() {
		le.closed = true
		return nil
	}
	return le.settle(context.WithoutCancel(ctx), "rollback", func(it leaseItem) []table.Cost {
		back := make([]table.Cost, len(it.taken))
		for i, c := range it.taken {
			back[i] = table.Cost{Limit: c.Limit, Milli: -c.Milli}
		}
		return back
	})
}

// divide distributes a settlement over the items of a lease: what is taken in
// addition goes to the first, what is given back to those that paid it.
func divide(costs []table.Cost, items []leaseItem) map[int][]table.Cost {
	out := make(map[int][]table.Cost, len(items))
	for _, c := range costs {
		left := c.Milli
		for i, it := range items {
			part := left
			if left < 0 && i < len(items)-1 { // the last takes what is left
				part = 0
				for _, t := range it.taken {
					if t.Limit == c.Limit {
						part = max(left, -t.Milli)
					}
				}
			}
			if part != 0 {
				out[it.shard] = append(out[it.shard], table.Cost{Limit: c.Limit, Milli: part})
			}
			if left -= part; left == 0 {
				break
			}
		}
	}
	return out
}

// settle writes one adjustment per item. Items that are settled leave the
// lease, so that a repeated call does not settle them twice.
func (le *Lease) settle(ctx context.Context, op string, costs func(leaseItem) []table.Cost) error {
	ctx, cancel := le.limiter.bounded(ctx)
	defer cancel()
	var errs []error
	left := le.items[:0:0]
	unknown := false
	for _, it := range le.items {
		err := le.limiter.settle(ctx, it, le.image, costs(it))
		switch {
		case err == nil:
		case store.KindOf(err) == store.Unknown:
			unknown = true
			errs = append(errs, outcome(op, le.name, err))
		default:
			left = append(left, it)
			errs = append(errs, outcome(op, le.name, err))
		}
	}
	if len(left) == 0 || unknown {
		le.closed = true
	} else {
		le.items = left
	}
	return errors.Join(errs...)
}

func (le *Lease) errClosed(op string) error {
	return &opError{op, le.name.entity, le.name.resource, ErrLeaseClosed, nil}
}
