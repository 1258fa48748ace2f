package admin

import (
	"cmp"
	"context"
	"errors"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// indexLag is how long a purge waits before it looks once more: indexes lag behind.
const indexLag = time.Second

// PurgeNamespace removes a deleted namespace with everything in it, for good, and returns how many
// items were removed. It takes as long as there are items; after an error, or a crash, call it
// again to continue. The error is ErrState if the namespace is active.
//
// A note of the id stays for two weeks, so that records of its buckets that are still in the stream
// are not counted as usage again.
//
// Clients that have not noticed the deletion yet may write during the purge or after it. Wait for
// their Options.ConfigTTL after the deletion; another call with the same id removes the items of
// Python clients, which never notice.
func (t *Table) PurgeNamespace(ctx context.Context, id string) (removed int, err error) {
	ns, err := t.byID(ctx, id)
	switch missing := errors.Is(err, limiter.ErrNamespace); {
	case !config.IsNamespaceID(id):
		return 0, validate.Invalid("id", id, "the id of a namespace")
	case missing:
		ns, err = config.Namespace{ID: id}, t.nameless(ctx, id)
	case err == nil && ns.Status == config.NamespaceActive:
		err = ErrState
	case err == nil:
		err = t.mark(ctx, ns.Purge())
	}
	if err != nil {
		return 0, fail(err, "purge namespace %q", cmp.Or(ns.Name, id))
	}
	for empty := 0; empty < 2; {
		n, err := t.sweep(ctx, id)
		if removed += n; err != nil {
			return removed, fail(err, "purge namespace %q", ns.Name)
		}
		if empty++; n > 0 {
			empty = 0
			continue
		}
		if empty < 2 {
			_ = smithytime.SleepWithContext(ctx, indexLag) // the next sweep notices if ctx has ended
		}
	}
	return removed, fail(t.mark(ctx, ns.Purged()), "purge namespace %q", ns.Name)
}

// mark changes the record of a namespace; the error is ErrState if that is not what it was.
func (t *Table) mark(ctx context.Context, w item.Write) error {
	_, err := t.calls.write(ctx, w)
	if isRefused(err) {
		return ErrState
	}
	return err
}

// nameless returns ErrState if an active namespace has the id after all.
func (t *Table) nameless(ctx context.Context, id string) error {
	for ns, err := range t.Namespaces(ctx) {
		if err != nil {
			return err
		}
		if ns.ID == id {
			return ErrState
		}
	}
	return nil
}

// sweep removes what can be found of a namespace now.
func (t *Table) sweep(ctx context.Context, id string) (removed int, err error) {
	for _, q := range []item.Query{config.OfSystem(id), config.OfNamespace(id)} {
		for items, err := range t.calls.pages(ctx, q) {
			if err != nil {
				return removed, err
			}
			var keys []item.Key
			for _, it := range items {
				keys = append(keys, item.KeyOf(it))
				if config.IsProvisioner(item.KeyOf(it)) {
					keys = append(keys, provisioned(it)...)
				}
			}
			gone, err := t.removeCounted(ctx, id, "", keys)
			if removed += len(gone); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// provisioned returns the keys of what a declarative provisioner manages: other
// clients store such items so that they cannot be found by namespace.
func provisioned(it item.Item) []item.Key {
	p, _ := config.DecodeProvisioner(it) // one that cannot be read names nothing
	var keys []item.Key
	for _, resource := range p.Resources {
		keys = append(keys, layout.ResourceConfigKey(p.Namespace, resource))
	}
	for entity, resources := range p.Entities {
		for _, resource := range resources {
			keys = append(keys, layout.EntityConfigKey(p.Namespace, entity, resource))
		}
	}
	return keys
}

// removeCounted removes items of an entity, or of a whole namespace, for good, and returns those
// that are removed. It notes that this happens, so that records of the buckets in the stream are
// not counted as usage again: before, because the call may end in between, and after, because it
// may have taken long.
func (t *Table) removeCounted(ctx context.Context, ns, entity string, keys []item.Key) (gone []item.Key, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if err := t.noteDeletion(ctx, ns, entity); err != nil {
		return nil, err
	}
	if gone, err = t.calls.remove(ctx, keys...); err != nil {
		return gone, err
	}
	return gone, t.noteDeletion(ctx, ns, entity)
}

func (t *Table) noteDeletion(ctx context.Context, ns, entity string) error {
	_, err := t.calls.write(ctx, config.Deleted(ns, entity, t.now()))
	if isRefused(err) { // it is said already
		return nil
	}
	return err
}
