package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// This file is about the entities that a manifest describes: what it may say of them, and what has
// to be done for it.

// line returns an entity and those above it. The error is an ErrParent that names the circle or
// the number of generations, or parentOf's.
func line(id string, parentOf func(string) (string, error)) ([]string, error) {
	way := []string{id}
	for p, err := parentOf(id); ; p, err = parentOf(p) {
		if err != nil || p == "" {
			return way, err
		}
		circle := slices.Contains(way, p)
		if way = append(way, p); circle {
			return nil, fail(ErrParent, "parent %q: a circle, %s", way[1], strings.Join(way, " -> "))
		}
		if len(way) > maxAncestors+1 {
			return nil, fail(ErrParent, "parent %q: more than %d generations", way[1], maxAncestors)
		}
	}
}

// checkDescribed validates the entities that are described, and that none is above itself.
func (m Manifest) checkDescribed() error {
	parents := make(map[string]string, len(m.Entities))
	for _, e := range m.Entities {
		if _, err := storedEntity(m.Namespace, e); err != nil {
			return fmt.Errorf("entity %q: %w", e.ID, err)
		}
		if _, twice := parents[e.ID]; twice {
			return validate.Invalid("Entities", validate.Plain(fmt.Sprintf("%q twice", e.ID)), "every entity once")
		}
		parents[e.ID] = e.Parent
	}
	for _, id := range slices.Sorted(maps.Keys(parents)) {
		if _, err := line(id, func(id string) (string, error) { return parents[id], nil }); err != nil {
			return fmt.Errorf("%w: entity %q: %w", limiter.ErrInvalid, id, err)
		}
	}
	return nil
}

// description is what a step does to the description of an entity.
type description struct {
	stored     item.Item     // before, exactly
	want       config.Entity // after; without an ID: nothing
	generation int           // how many are above it
}

// moves reports whether the entity gets another parent. One that is new has none below it.
func (s Step) moves() bool {
	return s.Action == ActionUpdate && (s.FromEntity == nil || s.FromEntity.Parent != s.ToEntity.Parent)
}

// hierarchy is the entities that a manifest describes or did describe, and those above them.
type hierarchy struct {
	n      *Namespace
	want   map[string]config.Entity
	gone   map[string]bool // described by the manifest before
	stored map[string]item.Item
	parent map[string]string // when all is done
}

// planEntities compares the descriptions of entities: first those that are declared, the parents
// before their children, then those that no longer are, the children first.
func (n *Namespace) planEntities(ctx context.Context, m Manifest, managed []string) ([]Step, error) {
	h := hierarchy{n, map[string]config.Entity{}, map[string]bool{}, map[string]item.Item{}, map[string]string{}}
	for _, e := range m.Entities {
		h.want[e.ID], _ = storedEntity(n.id, e) // Validate has accepted it
		h.parent[e.ID] = e.Parent
	}
	for _, id := range managed {
		if _, declared := h.want[id]; !declared {
			h.gone[id] = true
		}
	}
	all := slices.Sorted(maps.Keys(h.want))
	gone := slices.Sorted(maps.Keys(h.gone))
	if err := h.read(ctx, slices.Concat(all, gone)); err != nil {
		return nil, err
	}
	if err := h.readAbove(ctx); err != nil {
		return nil, err
	}
	var steps []Step
	for _, id := range slices.Concat(all, gone) {
		s, err := h.step(id)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps[:len(all)], func(a, b Step) int { return a.entity.generation - b.entity.generation })
	slices.SortStableFunc(steps[len(all):], func(a, b Step) int { return b.entity.generation - a.entity.generation })
	return steps, nil
}

// read reads the items of entities.
func (h hierarchy) read(ctx context.Context, ids []string) error {
	keys := make([]item.Key, len(ids))
	for i, id := range ids {
		keys[i] = layout.EntityKey(h.n.id, id)
	}
	items, err := h.n.calls.read(ctx, keys...)
	for i, it := range items {
		h.stored[ids[i]] = it
	}
	return err
}

// readAbove reads the entities above those that are declared, which are not declared themselves.
func (h hierarchy) readAbove(ctx context.Context) error {
	for range maxAncestors + 1 {
		above := map[string]bool{}
		for _, p := range h.parent {
			if _, known := h.parent[p]; p != "" && !known {
				above[p] = true
			}
		}
		if len(above) == 0 {
			return nil
		}
		ids := slices.Sorted(maps.Keys(above))
		if err := h.read(ctx, ids); err != nil {
			return err
		}
		for _, id := range ids {
			e, _ := config.DecodeEntity(h.stored[id]) // one that cannot be read ends the line
			h.parent[id] = e.Parent
		}
	}
	return nil
}

// step compares one entity.
func (h hierarchy) step(id string) (Step, error) {
	s := Step{Scope: Scope{Entity: id}, Action: ActionUnchanged}
	stored, want := h.stored[id], h.want[id]
	s.entity = &description{stored: stored, want: want}
	var was config.Entity
	if stored != nil {
		was, _ = config.DecodeEntity(stored) // what cannot be read is replaced
		s.FromEntity = new(entityOf(was))
	}
	parentOf := func(id string) (string, error) { return h.parent[id], nil }
	if h.gone[id] {
		if stored != nil {
			s.Action = ActionDelete
		}
		parentOf = func(id string) (string, error) {
			e, _ := config.DecodeEntity(h.stored[id]) // one that cannot be read ends the line
			return e.Parent, nil
		}
	} else if p := want.Parent; p != "" && h.gone[p] {
		return s, fail(ErrParent, "entity %q: parent %q: it is no longer declared", id, p)
	} else if _, declared := h.want[p]; p != "" && !declared && h.stored[p] == nil {
		return s, fail(ErrParent, "entity %q: parent %q: no such entity", id, p)
	}
	way, err := line(id, parentOf)
	if err != nil && !h.gone[id] {
		return s, fail(err, "entity %q", id)
	}
	s.entity.generation = len(way)
	if h.gone[id] {
		return s, nil
	}
	want.CreatedAt = cmp.Or(was.CreatedAt, layout.Timestamp(h.n.table.now()))
	s.entity.want, s.ToEntity = want, new(entityOf(want))
	switch {
	case stored == nil:
		s.Action = ActionCreate
	case !leaves(want.Update(), stored):
		s.Action = ActionUpdate
	}
	return s, nil
}
