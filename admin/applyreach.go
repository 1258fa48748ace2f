package admin

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// reachUnchanged reaches the buckets of steps that have nothing to store, while the table answers.
func (a *application) reachUnchanged(ctx context.Context) {
	var unchanged []int
	for i, s := range a.p.Steps {
		if s.Action == ActionUnchanged {
			unchanged = append(unchanged, i)
		}
	}
	for some := range slices.Chunk(unchanged, stepsAtOnce) {
		if a.down == nil {
			a.reach(ctx, some)
		}
	}
}

// reach brings stored steps to the buckets.
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
	g.SetLimit(reachAtOnce)
	for _, i := range buckets {
		g.Go(func() error {
			a.p.Steps[i].Err = a.n.reachStep(ctx, a.p.Steps[i])
			return nil
		})
	}
	_ = g.Wait()
}

// reachStep brings what a step has stored to the buckets that exist. The error is ErrReach. An
// unchanged step does not know the state before, so it brings everything.
func (n *Namespace) reachStep(ctx context.Context, s Step) error {
	again := s.Action == ActionUnchanged
	if s.entity != nil {
		if s.Action == ActionCreate || !s.moves() && s.Action == ActionUpdate && s.FromEntity.Cascade == s.ToEntity.Cascade {
			return nil // clients learn of a new one as of one that CreateEntity makes
		}
		return n.adopt(ctx, s.Scope.Entity)
	}
	before := n.configIn(s.item, s.Scope).Names()
	if again || len(before)+len(s.To.Limits) > 0 {
		if _, err := n.reach(ctx, s.Scope, before); err != nil {
			return err
		}
	}
	var p part
	switch switched, cascades := s.From.Access != s.To.Access, s.From.Cascade != s.To.Cascade; {
	case switched && cascades, again && s.Scope != Scope{}: // which says nothing else
		p = stamped.whole
	case switched:
		p = stamped.switched
	case cascades:
		p = stamped.adopted
	default:
		return nil
	}
	_, err := n.stampBuckets(ctx, s.Scope, p)
	return err
}

// withBuckets leaves out the steps at scopes of one bucket that there is not.
func (a *application) withBuckets(ctx context.Context, some []int) (out []int, err error) {
	var single []int
	var keys []item.Key
	for _, i := range some {
		if s := a.p.Steps[i]; s.entity != nil || s.Scope.Entity == "" || s.Scope.Resource == "" {
			out = append(out, i)
		} else {
			single, keys = append(single, i), append(keys, layout.BucketKey(a.n.id, s.Scope.Entity, s.Scope.Resource, 0))
		}
	}
	items, err := a.n.calls.read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for k, i := range single {
		if items[k] != nil {
			out = append(out, i)
		}
	}
	return out, nil
}
