package admin

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// reach brings what is stored to the buckets.
func (a *application) reach(ctx context.Context, some []int) {
	buckets, err := a.withBuckets(ctx, some)
	if err != nil {
		err = fail(err, "look for buckets")
		a.stop(err)
		for _, i := range some {
			a.p.Steps[i].Err = Reached{}.but(false, err)
		}
		return
	}
	var g errgroup.Group
	var mu sync.Mutex
	g.SetLimit(reachAtOnce)
	for _, i := range buckets {
		g.Go(func() error {
			err := a.n.ReachStep(ctx, a.p.Steps[i])
			mu.Lock()
			defer mu.Unlock()
			a.p.Steps[i].Err = err
			return nil
		})
	}
	_ = g.Wait()
}

// ReachStep brings what a step has stored to the buckets that exist. Apply does so by itself; call
// ReachStep to go on where Err of the step is ErrReach. The error is ErrReach.
func (n *Namespace) ReachStep(ctx context.Context, s Step) error {
	if s.entity != nil {
		if s.Action == ActionCreate || !s.moves() && s.Action == ActionUpdate && s.FromEntity.Cascade == s.ToEntity.Cascade {
			return nil // clients learn of a new one as of one that CreateEntity makes
		}
		return n.adopt(ctx, s.Scope.Entity)
	}
	if len(n.configIn(s.item, s.Scope).Names())+len(s.To.Limits) > 0 {
		if _, err := n.reach(ctx, s.Scope, n.configIn(s.item, s.Scope).Names()); err != nil {
			return err
		}
	}
	if s.From.Access != s.To.Access {
		if _, err := n.eachBucket(ctx, s.Scope, "tell", n.tellAccess); err != nil {
			return err
		}
	}
	if s.From.Cascade != s.To.Cascade {
		_, err := n.eachBucket(ctx, s.Scope, "tell", n.tellParent)
		return err
	}
	return nil
}

// withBuckets leaves out the steps at scopes of one bucket that there is not.
func (a *application) withBuckets(ctx context.Context, some []int) (out []int, err error) {
	keys := make([]item.Key, len(some))
	for k, i := range some {
		at := a.p.Steps[i].Scope
		if a.p.Steps[i].entity != nil {
			return some, nil
		}
		if at.Entity == "" || at.Resource == "" {
			return some, nil
		}
		keys[k] = layout.BucketKey(a.n.id, at.Entity, at.Resource, 0)
	}
	items, err := a.n.calls.read(ctx, keys...)
	for k, i := range some {
		if err == nil && items[k] != nil {
			out = append(out, i)
		}
	}
	return out, err
}
