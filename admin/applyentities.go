package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// write returns the write that stores a description, or deletes it, if the item is still as planned
// from.
func (d *description) write(a Action) item.Write {
	if a == ActionDelete {
		return item.Delete{Key: item.KeyOf(d.stored), If: conditionOn(d.stored)}
	}
	if d.stored == nil {
		return d.want.Create()
	}
	u := d.want.Update()
	u.If = conditionOn(d.stored)
	return u
}

// event returns the audit event of the write.
func (d *description) event(id string, a Action) ledger.Audit {
	switch a {
	case ActionCreate:
		return entitySet(d.want, ledger.ActionEntityCreated)
	case ActionDelete:
		return entityDeleted(id, 1)
	}
	return entitySet(d.want, ledger.ActionEntityUpdated)
}

// mustGoAlone reports whether a step about a description cannot be stored together with others. Its
// parent is missing. Or it moves, so that the entities above it have to stay as they are meanwhile.
// Or it is deleted, and has to be without children.
func (s Step) mustGoAlone(now map[item.Key]item.Item, ns string) bool {
	p := s.entity.want.Parent
	return s.Action == ActionDelete || s.moves() || p != "" && now[layout.EntityKey(ns, p)] == nil
}

// describe carries out one step about a description.
func (n *Namespace) describe(ctx context.Context, s Step) error {
	id, e := s.Scope.Entity, s.entity
	if s.Action != ActionDelete {
		err := n.writeEntity(ctx, e.want, e.event(id, s.Action), e.write(s.Action), ErrBusy)
		return fail(err, "%s entity %q", s.Action, id)
	}
	for child, err := range n.Children(ctx, id) {
		if err == nil { // the index may be behind
			child, err = n.Entity(ctx, child.ID)
		}
		if err == nil && child.Parent == id {
			err = fmt.Errorf("%w: it still is the parent of %q", ErrParent, child.ID)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fail(err, "delete entity %q", id)
		}
	}
	err := busyIfRefused(n.transactRecorded(ctx, e.event(id, s.Action), e.write(s.Action)))
	return fail(err, "delete entity %q", id)
}
