package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Steps are stored in waves, each in one transaction of up to stepsAtOnce steps, with their events,
// the registries that list them, and the check of the namespace.
const (
	stepsAtOnce = (item.MaxTransactItems - 3) / 2
	maxWaveSize = item.MaxTransactSize / 4 // bytes of items before and after; the events repeat these
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
	size := 0
	for phase := range 4 {
		for i, s := range p.Steps {
			if s.Action == ActionUnchanged || of(s).phase != phase {
				continue
			}
			last := len(out) - 1
			if last < 0 || len(out[last]) == stepsAtOnce || size+s.size() > maxWaveSize || of(p.Steps[out[last][0]]) != of(s) {
				out, last, size = append(out, nil), last+1, 0
			}
			out[last] = append(out[last], i)
			size += s.size()
		}
	}
	return out
}

// size is how many bytes the item has before, which the condition repeats, and after the step.
func (s Step) size() int {
	if s.entity != nil {
		return item.Size(s.entity.stored) + item.Size(s.entity.want.Item())
	}
	return item.Size(s.item) + item.Size(s.want.Item())
}

// application is a plan that is carried out.
type application struct {
	n    *Namespace
	p    *Plan
	done int
	down error // why the rest is not tried
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
		a.p.Progress(a.done, a.p.Changes())
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

// alone stores one step by itself, if the item is still as planned from.
func (a *application) alone(ctx context.Context, s Step) error {
	if s.entity != nil {
		return a.n.describe(ctx, s)
	}
	_, _, err := a.n.store(ctx, s.Scope, s.plannedFrom, func(c *config.Config) bool { *c = s.want; return true })
	return fail(err, "change limits of %s", s.Scope)
}

// store carries out the steps of a wave. An error concerns all of them; each step has its own. It reads
// the scopes to see attributes added since the plan: no condition finds them. A step whose scope has
// changed goes alone, and so do all where others change one meanwhile.
func (a *application) store(ctx context.Context, some []int) error {
	n := a.n
	now, err := a.now(ctx, some)
	if err != nil {
		return fail(err, "read %d scopes", len(some))
	}
	system := n.configIn(now[layout.SystemConfigKey(n.id)], Scope{})
	var together, alone []int
	var wave change
	for _, i := range some {
		s := a.p.Steps[i]
		switch {
		case s.entity == nil && !s.plannedFrom(now[n.config(s.Scope).Key()]), s.entity != nil && s.mustGoAlone(now, n.id):
			alone = append(alone, i)
			continue
		case s.entity != nil:
			wave.writes = append(wave.writes, s.entity.write(s.Action),
				n.record(ctx, system, s.entity.event(s.Scope.Entity, s.Action)))
		default:
			was := stored{item: s.item, config: n.configIn(s.item, s.Scope), system: system}
			c := n.writes(ctx, s.Scope, was, s.want)
			wave.writes, wave.lists = append(wave.writes, c.writes...), append(wave.lists, c.lists...)
		}
		together = append(together, i)
	}
	if len(together) > 0 {
		err = n.transact(ctx, wave.all(n.id)...)
	}
	if _, raced := refused(err); raced {
		together, alone, err = nil, some, nil
	}
	if err != nil {
		err = fail(err, "change limits of %d scopes", len(together))
		a.stop(err)
	}
	for _, i := range together {
		a.p.Steps[i].Err = err
	}
	for _, i := range alone {
		a.p.Steps[i].Err = a.alone(ctx, a.p.Steps[i])
	}
	a.tidy(ctx, together)
	return nil
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

// tidy takes resources out of the counts that are counted no more.
func (a *application) tidy(ctx context.Context, some []int) {
	forgotten := map[string]bool{}
	for _, i := range some {
		s := a.p.Steps[i]
		if s.entity == nil && !forgotten[s.want.Resource] {
			forgotten[s.want.Resource] = s.want.Empty()
			a.n.tidy(ctx, s.Scope, stored{item: s.item}, s.want)
		}
	}
}
