package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// manageSomething changes limits, entities or levels, as an administrator does,
// while clients work.
func (w *world) manageSomething(entity string) {
	ctx := context.Background()
	limits := variants[w.rng.IntN(len(variants))]
	at := admin.Scope{Entity: entity, Resource: resource}
	parent := []string{"", "org", "team"}[w.rng.IntN(3)]
	n := w.rng.IntN(12)
	w.mu.Lock()
	w.stats.changes++
	w.tracef("administration: %d of %s: %v, parent %q", n, entity, limits, parent)
	w.mu.Unlock()
	var err error
	switch {
	case n < 3:
		err = w.admin.SetLimits(ctx, admin.Scope{Resource: resource}, limits...)
	case n < 5:
		err = w.admin.SetLimits(ctx, at, limits...)
	case n < 6:
		err = w.admin.DeleteLimits(ctx, at)
	case n < 8:
		w.give(true)
		if n == 6 {
			_, err = w.admin.Reset(ctx, entity, resource)
		} else {
			_, err = w.admin.Credit(ctx, entity, resource, limiter.Costs{"rpm": 3})
		}
		time.Sleep(2 * time.Second) // what is on its way arrives
		w.give(false)
	case n < 11:
		_, err = w.admin.UpdateEntity(ctx, admin.Entity{ID: entity, Parent: parent, Cascade: parent != "" && n < 10})
	default:
		if entity == "key" { // the others are parents
			w.mu.Lock()
			w.deleted[entity] = true
			w.mu.Unlock()
			if _, err = w.admin.DeleteEntity(ctx, entity); err == nil {
				_, err = w.admin.CreateEntity(ctx, admin.Entity{ID: entity, Parent: parent, Cascade: parent != ""})
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("administration: %v", outcomeName(err))
	if err != nil && w.faulty == 0 && !errors.Is(err, limiter.ErrInvalid) && !errors.Is(err, admin.ErrNotFound) &&
		!errors.Is(err, admin.ErrBusy) && !errors.Is(err, admin.ErrExists) && !errors.Is(err, admin.ErrParent) {
		w.violated("administration: %v, though nothing went wrong", err)
	}
}

// give says whether the administration fills buckets.
func (w *world) give(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.manager.gives = on
}
