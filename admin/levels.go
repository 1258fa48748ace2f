package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Reset fills the named limits of a bucket on every shard, or all limits if none is named. Debt is
// forgiven, and the whole capacity can be taken at once, except for tokens that processes have
// taken ahead. For a rate, those refill. For a quota they are lost until the period ends, unless
// they are granted. A quota also gets the credits of its period back; a quota that counts from its
// first use opens a new period. A lease from before the reset gives nothing back to a quota after
// it. Usage stays as it is.
//
// It returns how many tokens were added, by limit, and records them as "bucket_reset". A bucket
// that does not exist is full already. The error is ErrNotFound if the bucket lacks a named limit.
// See [Namespace.Once] for calls whose answer is lost.
//
// Without names it also repairs a bucket that cannot be read (limiter.ErrUnreadable): it removes
// the bucket, and the next request finds a full one. It then returns nil, because the number of
// added tokens is unknown. Tokens taken from that bucket and not counted yet are missing in the
// usage.
func (n *Namespace) Reset(ctx context.Context, entity, resource string, limits ...string) (map[string]int64, error) {
	added, err := n.fill(ctx, entity, resource, limits)
	if errors.Is(err, limiter.ErrUnreadable) && len(limits) == 0 {
		return nil, fail(n.removeBucket(ctx, entity, resource), "reset bucket %s", Scope{entity, resource})
	}
	return added, err
}

func (n *Namespace) fill(ctx context.Context, entity, resource string, limits []string) (map[string]int64, error) {
	return n.raise(ctx, raising{of: Scope{entity, resource}, kind: table.OperationReset, action: ledger.ActionBucketReset,
		limits: limits, each: func(_ string, has room) (out []bucket.Gift) {
			for _, milli := range has.by {
				out = append(out, bucket.Gift{Milli: milli, Whole: true})
			}
			return out
		}})
}

// Credit adds whole tokens to limits of a bucket, spread over its shards. A rate takes them up to
// its capacity. A quota takes all of them, on top of its amount, until its period ends; a quota
// that counts from its first use opens a period if none is open. Usage stays as it is. To give back
// the tokens of a lease, use the lease.
//
// It returns how many tokens were added, by limit, and records them as "bucket_credited". If the
// bucket does not exist, its rates are full already; for a quota it is created under the stored
// limits. The error is ErrNotFound if the bucket lacks a named limit. See [Namespace.Once] for
// calls whose answer is lost.
func (n *Namespace) Credit(
	ctx context.Context, entity, resource string, tokens limiter.Costs,
) (map[string]int64, error) {
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	return n.raise(ctx, raising{of: Scope{entity, resource}, kind: table.OperationTopUp,
		action: ledger.ActionBucketCredited, creates: true, limits: slices.Sorted(maps.Keys(tokens)),
		each: func(limit string, has room) (out []bucket.Gift) {
			milli := tokens[limit] * bucket.Milli
			if has.quota {
				has.by = slices.Repeat([]int64{milli}, len(has.by))
			}
			for _, part := range divide(milli, has.by) {
				out = append(out, bucket.Gift{Milli: part})
			}
			return out
		}})
}

func checkTokens(tokens limiter.Costs) error {
	for limit, t := range tokens {
		if t < 1 || t > limiter.MaxTokens {
			return validate.Invalid("tokens of "+limit, t, fmt.Sprintf("1 to %d", int64(limiter.MaxTokens)))
		}
	}
	if len(tokens) == 0 {
		return validate.Invalid("tokens", validate.Plain("empty"), "at least one limit")
	}
	return nil
}

// noLimit is the error where a bucket does not have a limit.
func noLimit(limit string, found map[string]room) error {
	has := strings.Join(slices.Sorted(maps.Keys(found)), ", ")
	return fmt.Errorf("%w: limit %q, the bucket has %s", ErrNotFound, limit, cmp.Or(has, "none"))
}

// gifts is what each shard gets of each limit.
type gifts map[string][]bucket.Gift

// of returns what shard k gets.
func (g gifts) of(k int) map[string]bucket.Gift {
	out := map[string]bucket.Gift{}
	for limit, by := range g {
		out[limit] = by[k]
	}
	return out
}

// tokens returns how many whole tokens that is, by limit.
func (g gifts) tokens() map[string]int64 {
	out := map[string]int64{}
	for limit, by := range g {
		for _, gift := range by {
			out[limit] += gift.Milli
		}
		out[limit] /= bucket.Milli
	}
	return out
}

// divide divides an amount over shards by their shares, and what does not fit into
// one over the others. The rooms are a power of two of them as a rule, but some
// shard may be missing.
func divide(milli int64, rooms []int64) []int64 {
	out := make([]int64, len(rooms))
	left := milli
	for k, room := range rooms {
		out[k] = min(max(room, 0), bucket.Share(milli, k, len(rooms)), left)
		left -= out[k]
	}
	for k, room := range rooms {
		more := min(max(room-out[k], 0), left)
		out[k] += more
		left -= more
	}
	return out
}

// raiseAtOnce is how many writes one transaction has, besides the check of the namespace: the
// event, the operation, and 97 shards.
const raiseAtOnce = item.MaxTransactItems - 1

// raising is tokens on their way to the shards of a bucket.
type raising struct {
	of           Scope
	kind, action string
	creates      bool     // a bucket that is not there, to put something on top of its quotas
	limits       []string // empty: all that the bucket has
	// each says what each shard gets of a limit, from the room that it has there now.
	each func(limit string, has room) []bucket.Gift
}

// decide says what each shard gets, from the room that every limit has on every shard.
func (r raising) decide(found map[string]room) (gifts, error) {
	names := r.limits
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(found))
	}
	out := gifts{}
	for _, limit := range names {
		if found[limit].by == nil {
			return nil, noLimit(limit, found)
		}
		out[limit] = r.each(limit, found[limit])
	}
	return out, nil
}

// raise adds tokens to the shards of a bucket. All shards are one transaction, unless
// there are very many.
func (n *Namespace) raise(ctx context.Context, r raising) (map[string]int64, error) {
	if err := checkPair(r.of.Entity, r.of.Resource); err != nil {
		return nil, err
	}
	var added map[string]int64
	err := untilHeld(func() error {
		done, err := n.operation(ctx, r.of, r.kind)
		if added = done.Tokens; added == nil && err == nil {
			added, err = n.raiseOnce(ctx, r)
		}
		return err
	})
	return added, fail(err, "raise bucket %s", r.of)
}

// raiseOnce makes one attempt.
func (n *Namespace) raiseOnce(ctx context.Context, r raising) (map[string]int64, error) {
	shards, err := n.shards(ctx, r.of.Entity, r.of.Resource)
	now := n.table.now()
	var fresh *table.NewBucket
	if err == nil && len(shards) == 0 && r.creates {
		fresh, shards, err = n.fresh(ctx, r, now)
	}
	if err != nil || len(shards) == 0 && n.once == "" {
		return nil, err
	}
	g := gifts{}
	if len(shards) > 0 {
		if g, err = r.decide(rooms(shards, now)); err != nil {
			return nil, err
		}
	}
	var writes []item.Write
	for k, b := range shards {
		if fresh == nil {
			writes = append(writes, table.Raise(b, g.of(k), now))
			continue
		}
		fresh.Gifts = g.of(k)
		put, _ := table.Create(*fresh)
		writes = append(writes, put)
	}
	added := g.tokens()
	if writes, err = n.recorded(ctx, r, added, len(shards), writes); err != nil {
		return nil, err
	}
	wrote := false
	for some := range slices.Chunk(writes, raiseAtOnce) {
		switch err := n.transact(ctx, some...); {
		case err != nil && wrote: // never as if nothing was changed
			return added, &store.Failure{Kind: store.Unknown, Op: "TransactWriteItems", Err: busyIfRefused(err)}
		case err != nil:
			return nil, err
		}
		wrote = true
	}
	return added, nil
}

// room is how much a limit has room for on each shard, in millitokens, besides the tokens that
// processes hold (limiter.Options.Ahead).
type room struct {
	by    []int64
	quota bool
}

func rooms(shards []table.Shard, now int64) map[string]room {
	out := map[string]room{}
	for k, b := range shards {
		at := b.State.At(now)
		for i, sl := range at.Slots {
			if sl.Name == bucket.WCU || sl.Returns() {
				continue
			}
			r := out[sl.Name]
			if r.by == nil {
				r = room{make([]int64, len(shards)), sl.Renews()}
			}
			r.by[k] = max(bucket.SubSat(bucket.AddSat(at.Top(i), sl.Extra), sl.Tokens), 0)
			out[sl.Name] = r
		}
	}
	return out
}
