package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// stepsAtOnce is how many steps one transaction stores: each is a configuration and an
// event, and all share two registries and the check of the namespace. Transactions
// go one after another, because they would conflict there.
const stepsAtOnce = (item.MaxTransactItems - 3) / 2

// groups returns the steps that change something in the order in which they are carried out, as
// indices. At most stepsAtOnce are together, all of one level; a group has deletions only, or none.
func (p *Plan) groups() (out [][]int) {
	level := func(s Step) [3]bool {
		return [3]bool{s.Action == ActionDelete, s.Scope.Entity != "", s.Scope.Resource != ""}
	}
	for _, deleting := range []bool{false, true} {
		for i, s := range p.Steps {
			if s.Action == ActionUnchanged || (s.Action == ActionDelete) != deleting {
				continue
			}
			last := len(out) - 1
			if last < 0 || len(out[last]) == stepsAtOnce || level(p.Steps[out[last][0]]) != level(s) {
				out, last = append(out, nil), last+1
			}
			out[last] = append(out[last], i)
		}
	}
	return out
}

// application is a plan that is carried out.
type application struct {
	n             *Namespace
	p             *Plan
	done, changes int
	down          error // why the rest is not tried
}

// carryOut changes some scopes, those that still are what the plan was made from.
func (a *application) carryOut(ctx context.Context, some []int) {
	err := a.down
	if err == nil {
		err = a.together(ctx, some)
	}
	switch _, raced := refused(err); {
	case err == nil:
		a.reach(ctx, some)
	case raced:
		for _, i := range some {
			a.p.Steps[i].Err = a.alone(ctx, a.p.Steps[i])
		}
	default:
		for _, i := range some {
			a.p.Steps[i].Err = err
		}
		if a.down == nil {
			a.down = fmt.Errorf("not tried: %w", err)
		}
	}
	a.done += len(some)
	if a.p.Progress != nil {
		a.p.Progress(a.done, a.changes)
	}
}

// plannedFrom reports whether an item is what the step was planned from.
func (s Step) plannedFrom(now item.Item) bool {
	return item.EqualItems(now, s.item)
}

// alone changes one scope, if it still is what the plan was made from.
func (a *application) alone(ctx context.Context, s Step) error {
	return a.n.changeIf(ctx, s.Scope, s.plannedFrom, func(c *config.Config) { *c = s.want })
}

// together changes scopes in one transaction. A refusal says that one of them is not
// what the plan was made from, or that others change a registry all the time. What was
// added to them since the plan is seen by reading them: no condition finds it.
func (a *application) together(ctx context.Context, some []int) error {
	n := a.n
	keys := []item.Key{layout.SystemConfigKey(n.id)}
	for _, i := range some {
		keys = append(keys, n.config(a.p.Steps[i].Scope).Key())
	}
	now, err := n.calls.read(ctx, keys...)
	if err != nil {
		return fail(err, "read %d scopes", len(some))
	}
	for k, i := range some {
		if !a.p.Steps[i].plannedFrom(now[k+1]) {
			return &store.Canceled{}
		}
	}
	system := n.configIn(now[0], Scope{})
	var writes, registry []item.Write
	for _, i := range some {
		s := a.p.Steps[i]
		was := stored{item: s.item, config: n.configIn(s.item, s.Scope), system: system}
		w := n.writes(ctx, s.Scope, was, s.want)
		for _, x := range w {
			if k := x.Target(); k == layout.EntityConfigsKey(n.id) || k == layout.ResourcesKey(n.id) {
				registry = append(registry, x)
			} else {
				writes = append(writes, x)
			}
		}
	}
	if err := n.transact(ctx, append(writes, merged(registry)...)...); err != nil {
		return fail(err, "change limits of %d scopes", len(some))
	}
	forgotten := map[string]bool{}
	for _, i := range some {
		s := a.p.Steps[i]
		if forgotten[s.want.Resource] {
			continue
		}
		forgotten[s.want.Resource] = true
		n.tidy(ctx, s.Scope, stored{item: s.item}, s.want)
	}
	return nil
}

// merged returns one update for all of those of the same registry.
func merged(updates []item.Write) []item.Write {
	byKey := map[item.Key]item.Update{}
	for _, w := range updates {
		u := w.(item.Update)
		into, ok := byKey[u.Key]
		if !ok {
			byKey[u.Key] = u
			continue
		}
		into.Add = sums(into.Add, u.Add)
		into.Del = sums(into.Del, u.Del)
		byKey[u.Key] = into
	}
	var out []item.Write
	for _, u := range byKey {
		out = append(out, u)
	}
	return out
}

// sums adds the attributes of more to those of all: numbers and sets of strings, as an
// update does.
func sums(all, more []item.Attr) []item.Attr {
	at := item.Item{}
	for _, a := range slices.Concat(all, more) {
		next, _, err := item.Update{Key: item.Key{PK: "x", SK: "x"}, Add: []item.Attr{a}}.Apply(at)
		if err != nil {
			panic("bug: " + err.Error())
		}
		at = next
	}
	var out []item.Attr
	for _, name := range slices.Sorted(maps.Keys(at)) {
		out = append(out, item.Attr{Name: name, Value: at[name]})
	}
	return out
}

// reach brings limits that are stored to the buckets.
func (a *application) reach(ctx context.Context, some []int) {
	buckets, err := a.withBuckets(ctx, some)
	if err != nil {
		err = fail(err, "look for buckets")
		a.down = fmt.Errorf("not tried: %w", err)
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
			s := a.p.Steps[i]
			_, err := a.n.reach(ctx, s.Scope, a.n.configIn(s.item, s.Scope).Names())
			mu.Lock()
			defer mu.Unlock()
			a.p.Steps[i].Err = err
			return nil
		})
	}
	_ = g.Wait()
}

// withBuckets leaves out the steps at scopes of one bucket that there is not.
func (a *application) withBuckets(ctx context.Context, some []int) (out []int, err error) {
	keys := make([]item.Key, len(some))
	for k, i := range some {
		at := a.p.Steps[i].Scope
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
