package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Steps are stored in waves. The steps of a wave go into transactions of stepsAtOnce, each step with
// its event, and groupsAtOnce of these go out at the same time. They would conflict in the registries
// and in the check of the namespace, so these are a transaction of their own before the others. More
// steps in one transaction are no faster, and an emulator takes twice as long for each.
const (
	stepsAtOnce  = 12
	groupsAtOnce = 8

	maxGroupSize = item.MaxTransactSize / 4 // bytes of stored items, which the events repeat
)

// waves returns the steps that change something in the order in which they are carried out, as
// indices. The steps of a wave are of one phase and level, so that they can go in any order.
func (p *Plan) waves() (out [][]int) {
	type rank struct {
		phase, level int
	}
	of := func(s Step) rank {
		switch del := s.Action == ActionDelete; {
		case s.entity != nil && del:
			return rank{2, s.entity.generation}
		case s.entity != nil:
			return rank{1, s.entity.generation}
		case del:
			return rank{3, s.Scope.width()}
		}
		return rank{0, s.Scope.width()}
	}
	for phase := range 4 {
		for i, s := range p.Steps {
			if s.Action == ActionUnchanged || of(s).phase != phase {
				continue
			}
			last := len(out) - 1
			if last < 0 || len(out[last]) == stepsAtOnce*groupsAtOnce || of(p.Steps[out[last][0]]) != of(s) {
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
	miscounted    error // a scope is stored, but not taken out of a registry
}

// carryOut changes some scopes or descriptions, those that still are what the plan was made from.
func (a *application) carryOut(ctx context.Context, some []int) {
	err := a.down
	if err == nil {
		err = a.store(ctx, some)
	}
	if err != nil {
		for _, i := range some {
			a.p.Steps[i].Err = err
		}
		a.stop(err)
	}
	a.reach(ctx, slices.DeleteFunc(slices.Clone(some), func(i int) bool { return a.p.Steps[i].Err != nil }))
	a.done += len(some)
	if a.p.Progress != nil {
		a.p.Progress(a.done, a.changes)
	}
}

// stop has what comes next not tried.
func (a *application) stop(err error) {
	if a.down == nil {
		a.down = fmt.Errorf("not tried: %w", err)
	}
}

// plannedFrom reports whether an item is what the step was planned from.
func (s Step) plannedFrom(now item.Item) bool {
	return item.EqualItems(now, s.item)
}

// alone carries out one step by itself, if the item is still as planned from.
func (a *application) alone(ctx context.Context, s Step) error {
	if s.entity != nil {
		return a.n.describe(ctx, s)
	}
	return a.n.changeIf(ctx, s.Scope, s.plannedFrom, func(c *config.Config) { *c = s.want })
}

// order is what carries out one step.
type order struct {
	step          int
	writes        []item.Write // with its event
	with          []item.Write // of the registry of resources, which lists those with limits
	before, after []item.Write // of the counts of entities with limits, which may be too high for a while
	undo          []item.Write // of before
	size          int
}

// store carries out the steps of a wave. An error concerns all of them; each step has its own.
func (a *application) store(ctx context.Context, some []int) error {
	orders, alone, err := a.orders(ctx, some)
	if err != nil {
		return err
	}
	groups := grouped(orders)
	errs, err := a.send(ctx, groups)
	if err != nil {
		return fail(busyIfRefused(err), "change limits of %d scopes", len(some))
	}
	var after []item.Write
	for k, group := range groups {
		_, raced := refused(errs[k])
		for _, o := range group {
			switch {
			case errs[k] == nil:
				a.p.Steps[o.step].Err = nil
				after = append(after, o.after...)
			case raced:
				alone = append(alone, o.step)
				after = append(after, o.undo...)
			default: // it may be stored, and so it stays counted
				err := fail(errs[k], "change limits of %d scopes", len(group))
				a.p.Steps[o.step].Err = err
				a.stop(err)
			}
		}
	}
	slices.Sort(alone)
	for _, i := range alone {
		a.p.Steps[i].Err = a.alone(ctx, a.p.Steps[i])
	}
	if len(groups) > 1 {
		a.count(ctx, after)
	}
	a.tidy(ctx, orders)
	return nil
}

// send sends groups of orders, and returns what became of each. One group alone is one transaction
// with all that it needs. Before several, what they count is counted, if the namespace is active; that
// this fails is the error.
func (a *application) send(ctx context.Context, groups [][]order) (errs []error, err error) {
	errs = make([]error, len(groups))
	if len(groups) == 1 {
		writes, registry, counts := together(groups[0])
		errs[0] = a.n.transact(ctx, append(writes, merged(append(registry, counts...))...)...)
		return errs, nil
	}
	var before []item.Write
	for _, o := range slices.Concat(groups...) {
		before = append(before, o.before...)
	}
	if len(groups) == 0 {
		return nil, nil
	}
	if err := a.n.transact(ctx, merged(before)...); err != nil {
		return nil, err
	}
	var g errgroup.Group
	if g.SetLimit(groupsAtOnce); a.p.Steps[groups[0][0].step].Scope.Entity == "" {
		g.SetLimit(1) // each changes the registry of resources
	}
	for k, group := range groups {
		g.Go(func() error {
			writes, registry, _ := together(group)
			errs[k] = a.n.calls.transact(ctx, append(writes, merged(registry)...)...)
			return nil
		})
	}
	_ = g.Wait()
	return errs, nil
}

// together returns the writes of orders, their changes of the registry, and of the counts.
func together(group []order) (writes, registry, counts []item.Write) {
	for _, o := range group {
		writes, registry = append(writes, o.writes...), append(registry, o.with...)
		counts = append(append(counts, o.before...), o.after...)
	}
	return writes, registry, counts
}

// grouped returns orders in the transactions that carry them out.
func grouped(orders []order) (out [][]order) {
	size := 0
	for _, o := range orders {
		last := len(out) - 1
		if last < 0 || len(out[last]) == stepsAtOnce || size+o.size > maxGroupSize {
			out, last, size = append(out, nil), last+1, 0
		}
		out[last] = append(out[last], o)
		size += o.size
	}
	return out
}

// orders returns what carries out the steps of a wave, and which steps have to go alone. It reads the
// scopes to see attributes added since the plan: no condition finds them.
func (a *application) orders(ctx context.Context, some []int) (orders []order, alone []int, err error) {
	n := a.n
	now, err := a.now(ctx, some)
	if err != nil {
		return nil, nil, fail(err, "read %d scopes", len(some))
	}
	system := n.configIn(now[layout.SystemConfigKey(n.id)], Scope{})
	for _, i := range some {
		s := a.p.Steps[i]
		switch {
		case s.entity == nil && !s.plannedFrom(now[n.config(s.Scope).Key()]), s.entity != nil && s.mustGoAlone(now, n.id):
			alone = append(alone, i)
		case s.entity == nil:
			orders = append(orders, n.order(ctx, i, s, system))
		default:
			orders = append(orders, order{step: i, size: item.Size(s.entity.want.Item()),
				writes: []item.Write{s.entity.write(s.Action), n.record(ctx, system, s.entity.event(s.Scope.Entity, s.Action))}})
		}
	}
	return orders, alone, nil
}

// now reads what steps are about: their scopes, and the parents of their entities.
func (a *application) now(ctx context.Context, some []int) (map[item.Key]item.Item, error) {
	now := map[item.Key]item.Item{layout.SystemConfigKey(a.n.id): nil}
	for _, i := range some {
		if s := a.p.Steps[i]; s.entity == nil {
			now[a.n.config(s.Scope).Key()] = nil
		} else if p := s.entity.want.Parent; p != "" {
			now[layout.EntityKey(a.n.id, p)] = nil
		}
	}
	keys := slices.Collect(maps.Keys(now))
	items, err := a.n.calls.read(ctx, keys...)
	for i, it := range items {
		now[keys[i]] = it
	}
	return now, err
}

// order returns what carries out a step at a scope.
func (n *Namespace) order(ctx context.Context, i int, s Step, system config.Config) order {
	o := order{step: i, size: item.Size(s.want.Item())}
	was := stored{item: s.item, config: n.configIn(s.item, s.Scope), system: system}
	for _, w := range n.writes(ctx, s.Scope, was, s.want) {
		switch k := w.Target(); {
		case k == layout.ResourcesKey(n.id):
			o.with = append(o.with, w)
		case k != layout.EntityConfigsKey(n.id):
			o.writes = append(o.writes, w)
		case s.item == nil:
			o.before, o.undo = append(o.before, w), n.registers(true, s.want, false)
		default:
			o.after = append(o.after, w)
		}
	}
	return o
}
