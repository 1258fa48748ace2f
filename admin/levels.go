package admin

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Reset fills the named limits of a bucket, all of them if none is named, on every
// shard: debt is forgiven, and the capacity can be taken at once. It returns how
// many tokens that added, by limit, and records it as "bucket_reset". A bucket that
// does not exist is full already. Usage is not changed by it. The error is
// ErrNotFound if the bucket has no limit of that name.
//
// It also mends a bucket that cannot be read (limiter.ErrUnreadable): with no limit
// named, the bucket is removed, and the next request finds a full one. What that added
// is not known, so nil is returned; what its counters had grown by and nobody has
// counted yet is missing in the usage.
func (n *Namespace) Reset(ctx context.Context, entity, resource string, limits ...string) (map[string]int64, error) {
	added, err := n.fill(ctx, entity, resource, limits)
	if errors.Is(err, limiter.ErrUnreadable) && len(limits) == 0 {
		return nil, fail(n.removeBucket(ctx, entity, resource), "reset bucket %s", Scope{entity, resource})
	}
	return added, err
}

func (n *Namespace) fill(ctx context.Context, entity, resource string, limits []string) (map[string]int64, error) {
	return n.raise(ctx, entity, resource, table.ActionBucketReset, func(rooms map[string][]int64) (gifts, error) {
		out := gifts{}
		for _, limit := range limits {
			if rooms[limit] == nil {
				return nil, fail(ErrNotFound, "limit %q", limit)
			}
			out[limit] = rooms[limit]
		}
		if len(limits) == 0 {
			out = rooms
		}
		return out, nil
	})
}

// Credit adds whole tokens to limits of a bucket, to all shards together, but never
// above the capacity. It returns how many were added, by limit, and records it as
// "bucket_credited". A bucket that does not exist is full, so nothing is added.
// Usage is not changed by it. Tokens of a lease are given back by the lease. The
// error is ErrNotFound if the bucket has no limit of that name.
func (n *Namespace) Credit(
	ctx context.Context, entity, resource string, tokens limiter.Costs,
) (map[string]int64, error) {
	for limit, t := range tokens {
		if t < 1 || t > limiter.MaxTokens {
			return nil, argument.Invalid("tokens of "+limit, t, "1 to limiter.MaxTokens")
		}
	}
	if len(tokens) == 0 {
		return nil, argument.Invalid("tokens", argument.Plain("empty"), "at least one limit")
	}
	return n.raise(ctx, entity, resource, table.ActionBucketCredited, func(rooms map[string][]int64) (gifts, error) {
		out := gifts{}
		for _, limit := range slices.Sorted(maps.Keys(tokens)) {
			if rooms[limit] == nil {
				return nil, fail(ErrNotFound, "limit %q", limit)
			}
			out[limit] = spread(tokens[limit]*bucket.Milli, rooms[limit])
		}
		return out, nil
	})
}

// gifts is what each shard gets of each limit, in millitokens.
type gifts map[string][]int64

// spread divides an amount over shards by their shares, and what does not fit into
// one over the others. The rooms are a power of two of them as a rule, but some
// shard may be missing.
func spread(milli int64, rooms []int64) []int64 {
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

// raiseAtOnce is how many shards one transaction raises, with its audit event.
const raiseAtOnce = 50

// raise adds tokens to the shards of a bucket: decide says how many, from the room
// that every limit has on every shard now. All shards are one transaction, unless
// there are very many.
func (n *Namespace) raise(
	ctx context.Context, entity, resource, action string, decide func(map[string][]int64) (gifts, error),
) (map[string]int64, error) {
	if err := checkPair(entity, resource); err != nil {
		return nil, err
	}
	of := Scope{entity, resource}
	for range callAttempts {
		shards, err := n.shards(ctx, entity, resource)
		if err != nil || len(shards) == 0 {
			return nil, fail(err, "raise bucket %s", of)
		}
		now := n.table.now()
		g, err := decide(rooms(shards, now))
		if err != nil {
			return nil, fail(err, "raise bucket %s", of)
		}
		system, err := n.readScope(ctx, Scope{})
		if err != nil {
			return nil, fail(err, "raise bucket %s", of)
		}
		added := map[string]int64{}
		for limit, by := range g {
			for _, milli := range by {
				added[limit] += max(milli, 0)
			}
			added[limit] /= bucket.Milli
		}
		record := n.record(ctx, system.system, event{
			subject: table.EntitySubject(entity), resource: resource, action: action, details: table.BucketLevels(added),
		})
		done, err := n.raiseAll(ctx, shards, g, now, record)
		if _, raced := refused(err); raced && !done {
			continue
		}
		if _, raced := refused(err); raced {
			err = ErrBusy
		}
		return added, fail(err, "raise bucket %s", of)
	}
	return nil, fail(ErrBusy, "raise bucket %s", of)
}

// raiseAll sends the transactions; done reports whether any was carried out.
func (n *Namespace) raiseAll(
	ctx context.Context, shards []table.Shard, g gifts, now int64, record item.Write,
) (done bool, err error) {
	writes := []item.Write{record}
	for k, b := range shards {
		of := map[string]int64{}
		for limit, by := range g {
			of[limit] = by[k]
		}
		writes = append(writes, table.Raise(b, of, now))
	}
	for some := range slices.Chunk(writes, raiseAtOnce) {
		if err := n.transact(ctx, some...); err != nil {
			return done, err
		}
		done = true
	}
	return done, nil
}

// rooms returns how much each limit has room for on each shard, in millitokens, beside what
// processes hold of it (limiter.Options.Ahead).
func rooms(shards []table.Shard, now int64) map[string][]int64 {
	out := map[string][]int64{}
	for k, b := range shards {
		at := b.State.At(now)
		for i, sl := range at.Slots {
			if sl.Name == bucket.WCU {
				continue
			}
			if out[sl.Name] == nil {
				out[sl.Name] = make([]int64, len(shards))
			}
			out[sl.Name][k] = max(bucket.SubSat(at.Top(i), sl.Tokens), 0)
		}
	}
	return out
}
