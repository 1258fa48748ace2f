package admin

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Entity describes an entity. Entities are limited without a description: it is for names,
// metadata, and parents that pay too.
type Entity struct {
	ID   string
	Name string // to show to people; empty on creation: the ID
	// Parent is the entity that this one belongs to; empty: none.
	Parent string
	// Cascade: requests of the entity are also charged to Parent. Clients follow a change as soon
	// as their cached configuration expires.
	Cascade bool
	// Metadata is for the owner of the entity: text, booleans, numbers, nil, and maps and lists of
	// these, at most 16 levels deep. Whole numbers are read back as int64, others as float64.
	Metadata  map[string]any
	CreatedAt time.Time // set by CreateEntity
}

func entityOf(e config.Entity) Entity {
	return Entity{
		ID: e.ID, Name: e.Name, Parent: e.Parent, Cascade: e.Cascade,
		Metadata: publicMap(e.Metadata), CreatedAt: parseTime(e.CreatedAt),
	}
}

// maxEntitySize leaves room in the event that repeats an entity, for its own attributes.
const maxEntitySize = item.MaxItemSize - 4<<10

// storedEntity validates an entity and returns it as it is stored in a namespace, as yet without
// when it was created.
func storedEntity(ns string, e Entity) (config.Entity, error) {
	out := config.Entity{Namespace: ns, ID: e.ID, Name: cmp.Or(e.Name, e.ID), Parent: e.Parent, Cascade: e.Cascade}
	if err := validate.Entity("ID", e.ID); err != nil {
		return out, err
	}
	if e.Parent != "" {
		if err := validate.Entity("Parent", e.Parent); err != nil {
			return out, err
		}
	} else if e.Cascade {
		return out, validate.Invalid("Cascade", true, "a Parent to cascade to")
	}
	if e.Name != "" && layout.CheckEntity(e.Name) != nil {
		return out, validate.Invalid("Name", e.Name, "empty, or "+layout.Names)
	}
	var err error
	if out.Metadata, err = storedMap("Metadata", e.Metadata, 1); err != nil {
		return out, err
	}
	out.CreatedAt = layout.Timestamp(0) // as long as any
	if it := out.Item(); item.ValidateItem(it) != nil || item.Size(it) > maxEntitySize {
		return out, validate.Invalid("Metadata", validate.Plain("too large"), "at most 396 KB in all")
	}
	out.CreatedAt = ""
	return out, nil
}

// CreateEntity stores an entity and records it. Its parent must exist, which rules out circles. The
// error is ErrExists, ErrParent or one that all calls have.
func (n *Namespace) CreateEntity(ctx context.Context, e Entity) (Entity, error) {
	stored, err := storedEntity(n.id, e)
	if err != nil {
		return Entity{}, err
	}
	stored.CreatedAt = layout.Timestamp(n.table.now())
	err = n.writeEntity(ctx, stored, entitySet(stored, ledger.ActionEntityCreated), stored.Create(), ErrExists)
	return entityOf(stored), fail(err, "create entity %q", e.ID)
}

// UpdateEntity replaces the name, parent, cascade flag and metadata of an entity, and records that.
// CreatedAt stays as it is. Parent and flag are written to existing buckets, because Python clients
// look there. The error is ErrNotFound, ErrParent or one that all calls have; after any other than
// these two, call again.
func (n *Namespace) UpdateEntity(ctx context.Context, e Entity) (Entity, error) {
	stored, err := storedEntity(n.id, e)
	if err != nil {
		return Entity{}, err
	}
	_, was, err := n.existing(ctx, e.ID)
	if err != nil {
		return Entity{}, fail(err, "read entity %q", e.ID)
	}
	stored.CreatedAt = cmp.Or(was.CreatedAt, layout.Timestamp(n.table.now()))
	err = n.writeEntity(ctx, stored, entitySet(stored, ledger.ActionEntityUpdated), stored.Update(), ErrNotFound)
	if err != nil {
		return Entity{}, fail(err, "update entity %q", e.ID)
	}
	err = n.adopt(ctx, e.ID)
	return entityOf(stored), fail(err, "update entity %q: its buckets", e.ID)
}

// MoveEntity gives an entity another parent, or none if parent is empty, and records that. Name,
// metadata and Cascade stay; without a parent nothing cascades. Existing buckets are changed too.
// Clients charge the new parent within limiter.Options.ConfigTTL. A lease gives back to the parent
// that it charged. The error is ErrNotFound, ErrParent or one that all calls have; after any other
// than these two, call again.
func (n *Namespace) MoveEntity(ctx context.Context, id, parent string) (Entity, error) {
	err := validate.Entity("ID", id)
	if err == nil && parent != "" {
		err = validate.Entity("Parent", parent)
	}
	if err != nil {
		return Entity{}, err
	}
	var moved config.Entity
	err = untilHeld(func() error {
		stored, e, err := n.existing(ctx, id)
		if err != nil {
			return err
		}
		e.Parent, e.Cascade = parent, e.Cascade && parent != ""
		move := e.Move()
		move.If = conditionOn(stored)
		moved = e
		return n.tryEntity(ctx, e, entitySet(e, ledger.ActionEntityUpdated), move)
	})
	if err != nil {
		return Entity{}, fail(err, "move entity %q", id)
	}
	return entityOf(moved), fail(n.adopt(ctx, id), "move entity %q: its buckets", id)
}

// writeEntity stores an entity. taken is the error if the entity itself is in the way.
func (n *Namespace) writeEntity(
	ctx context.Context, e config.Entity, record ledger.Audit, write item.Write, taken error,
) error {
	return untilHeld(func() error {
		err := n.tryEntity(ctx, e, record, write)
		if reasons, raced := refused(err); raced && reasons[0].Refused {
			return taken
		}
		return err
	})
}

// tryEntity stores an entity once, on the condition that its ancestors are those that it reads.
func (n *Namespace) tryEntity(ctx context.Context, e config.Entity, record ledger.Audit, write item.Write) error {
	checks, err := n.ancestors(ctx, e)
	if err != nil {
		return err
	}
	return n.transactRecorded(ctx, record, append([]item.Write{write}, checks...)...)
}

// maxAncestors bounds how many generations an entity may have above it. Only a few
// of them are ever charged.
const maxAncestors = 32

// ancestors looks at the parents of an entity, up to the last one. The checks hold
// while they are what they are, so that no two changes at the same time make a
// circle.
func (n *Namespace) ancestors(ctx context.Context, e config.Entity) (checks []item.Write, err error) {
	_, err = line(e.ID, func(id string) (string, error) {
		if id == e.ID {
			return e.Parent, nil
		}
		stored, p, err := n.described(ctx, id)
		if err == nil && stored == nil && id == e.Parent {
			err = fail(ErrParent, "parent %q: no such entity", id)
		}
		if err != nil || stored == nil { // a grandparent was deleted, or never was
			return "", err
		}
		checks = append(checks, p.Unchanged())
		return p.Parent, nil
	})
	return checks, err
}

// Entity returns an entity; the error is ErrNotFound if it is not described.
func (n *Namespace) Entity(ctx context.Context, id string) (Entity, error) {
	if err := validate.Entity("ID", id); err != nil {
		return Entity{}, err
	}
	_, e, err := n.existing(ctx, id)
	return entityOf(e), fail(err, "read entity %q", id)
}

// existing is described for an entity that must exist, else the error is ErrNotFound.
func (n *Namespace) existing(ctx context.Context, id string) (stored item.Item, e config.Entity, err error) {
	if stored, e, err = n.described(ctx, id); err == nil && stored == nil {
		err = ErrNotFound
	}
	return stored, e, err
}

// described returns the item of an entity, and the entity; nil and the zero one if it is not
// described.
func (n *Namespace) described(ctx context.Context, id string) (stored item.Item, e config.Entity, err error) {
	items, err := n.calls.read(ctx, layout.EntityKey(n.id, id))
	if err != nil || items[0] == nil {
		return nil, e, err
	}
	e, err = config.DecodeEntity(items[0])
	return items[0], e, err
}

// entity returns an entity, the zero one if it is not described.
func (n *Namespace) entity(ctx context.Context, id string) (config.Entity, error) {
	_, e, err := n.described(ctx, id)
	return e, err
}

// Children lists the entities with a parent, sorted by id.
func (n *Namespace) Children(ctx context.Context, parent string) iter.Seq2[Entity, error] {
	if err := validate.Entity("parent", parent); err != nil {
		return failing[Entity](err)
	}
	return decoded(n.calls.query(ctx, config.Children(n.id, parent)), func(it item.Item) (Entity, bool, error) {
		e, err := config.DecodeEntity(it)
		return entityOf(e), e.Parent == parent, err // else only the index says so
	}, "list children of %q", parent)
}
