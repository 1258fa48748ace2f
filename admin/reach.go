package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	smithytime "github.com/aws/smithy-go/time"
	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Reached counts the buckets that limits were brought to.
type Reached struct {
	Buckets int // looked at
	Changed int // that had other limits than those in force
	Failed  int // that were tried in vain
}

// but returns the ErrReach of a cause: what happened to the first bucket that failed, or, if
// not all are listed, ended the search for more.
func (r Reached) but(listed bool, cause error) error {
	failed := "an unknown number"
	if listed {
		failed = strconv.Itoa(r.Failed)
	}
	return fmt.Errorf("%w: %d looked at, %d changed, %s not reached: %w", ErrReach, r.Buckets, r.Changed, failed, cause)
}

const (
	reachAtOnce   = 8  // buckets
	reachAttempts = 40 // reads of one bucket
)

// Reach brings the limits in force to the existing buckets of a scope, on all their shards.
// SetLimits and DeleteLimits do that themselves; call Reach to continue after they failed. It looks
// at every bucket of the scope: for the widest scope at every bucket of the namespace.
//
// A changed limit keeps its level, up to the new capacity. A new limit starts full. A limit that is
// not in force leaves the bucket, at the latest when it is full. Limits that come with requests
// (limiter.Request.Limits) count as not in force, so do not mix them with stored limits in one
// bucket. Buckets without stored limits at any scope stay as they are. The error is ErrReach.
func (n *Namespace) Reach(ctx context.Context, at Scope) (Reached, error) {
	if err := at.validate(); err != nil {
		return Reached{}, err
	}
	return n.reach(ctx, at, nil)
}

// reach is Reach with the names of the limits that were stored at the scope before.
func (n *Namespace) reach(ctx context.Context, at Scope, before []string) (Reached, error) {
	return n.eachBucket(ctx, at, "bring limits to", func(ctx context.Context, of Scope) (bool, error) {
		return n.reachBucket(ctx, at, of, before)
	})
}

// eachBucket does something to every bucket of a scope, several at once.
func (n *Namespace) eachBucket(
	ctx context.Context, at Scope, what string, do func(context.Context, Scope) (changed bool, err error),
) (Reached, error) {
	var mu sync.Mutex
	var out Reached
	var g errgroup.Group
	g.SetLimit(reachAtOnce)
	var unlisted error
	for of, err := range n.bucketsAt(ctx, at) {
		if err != nil {
			unlisted = fail(err, "list buckets of %s", at)
			break
		}
		g.Go(func() error {
			changed, err := do(ctx, of)
			mu.Lock()
			defer mu.Unlock()
			if out.Buckets++; changed {
				out.Changed++
			}
			if err != nil {
				out.Failed++
			}
			return fail(err, "%s bucket %q", what, of.String())
		})
	}
	if err := cmp.Or(unlisted, g.Wait()); err != nil {
		return out, out.but(unlisted == nil, err)
	}
	return out, nil
}

// reachBucket brings the limits in force to one bucket, after a change at a scope. It reads the
// configuration and all shards again until nothing is left to do, so it also finds concurrent
// changes.
func (n *Namespace) reachBucket(ctx context.Context, at, of Scope, before []string) (changed bool, err error) {
	last := error(ErrBusy)
	for try := range reachAttempts {
		in, err := n.inForce(ctx, of.Entity, of.Resource)
		if in.at.width() < at.width() {
			err = nil // a scope that cannot be read hides the change from the bucket
		}
		if err != nil || len(in.limits) == 0 {
			return changed, err
		}
		shards, err := n.shards(ctx, of.Entity, of.Resource)
		if err != nil {
			return changed, err
		}
		b := bringing{want: in.limits, lifetime: in.lifetime(), before: before}
		done := true
		for _, image := range shards {
			u, due := b.onto(image, n.table.now())
			if !due {
				continue
			}
			done = false
			// Not repeated blindly: the next read finds out.
			err := n.calls.once(ctx, func(ctx context.Context) error {
				_, err := n.calls.db.Write(ctx, u)
				return err
			})
			switch {
			case err == nil:
				changed = true
			case isRefused(err):
				last = ErrBusy
			case store.KindOf(err) == store.Unavailable:
				return changed, err
			default:
				last = err
			}
		}
		if done {
			return changed, nil
		}
		pause(ctx, try)
	}
	return changed, last
}

// pause waits before the next read of a bucket, longer from try to try. It ends with ctx, and the
// read fails then.
func pause(ctx context.Context, try int) {
	_ = smithytime.SleepWithContext(ctx, store.Jitter(try, callPause/5, callPause))
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*store.Refused](err)
	return ok
}

// inForce is the limits that are stored for an entity and resource.
type inForce struct {
	limits []bucket.Limit // nil: none at any scope
	at     Scope          // where they are stored
}

// lifetime returns how long a bucket with these limits lives: one with limits of its
// own does not expire.
func (in inForce) lifetime() table.Lifetime {
	if in.at.Entity != "" && in.at.Resource != "" {
		return table.NeverExpires
	}
	return table.Expires
}

// configs returns the configurations that are stored for an entity on a resource, the most specific
// first.
func (n *Namespace) configs(ctx context.Context, entity, resource string) ([]item.Item, error) {
	var keys []item.Key
	for _, s := range []Scope{{entity, resource}, {Entity: entity}, {Resource: resource}, {}} {
		keys = append(keys, n.config(s).Key())
	}
	return n.calls.found(ctx, keys...)
}

func (n *Namespace) inForce(ctx context.Context, entity, resource string) (in inForce, err error) {
	items, err := n.configs(ctx, entity, resource)
	var first config.Config // has the raises
	for i, it := range items {
		c, err := config.DecodeConfig(it)
		if i == 0 {
			first = c
		}
		if err != nil || len(c.Limits) > 0 { // less specific scopes do not matter
			return inForce{first.Raised(c.Limits, n.table.now()), scopeOf(c)}, err
		}
	}
	return in, err
}

// shards returns the shards of a bucket, in order; those that are missing are left
// out. Nil: the bucket does not exist.
func (n *Namespace) shards(ctx context.Context, entity, resource string) (out []table.Shard, _ error) {
	for from, to := 0, 1; from < to; {
		items, err := n.shardItems(ctx, entity, resource, from, to)
		if err != nil {
			return nil, err
		}
		from = to
		for _, it := range items {
			b, err := table.DecodeShard(it)
			if err != nil {
				return nil, err
			}
			out, to = append(out, b), max(to, b.State.Shards)
		}
	}
	return out, nil
}

// shardItems returns the stored ones of a range of shards.
func (n *Namespace) shardItems(ctx context.Context, entity, resource string, from, to int) ([]item.Item, error) {
	var keys []item.Key
	for k := from; k < to; k++ {
		keys = append(keys, layout.BucketKey(n.id, entity, resource, k))
	}
	return n.calls.found(ctx, keys...)
}
