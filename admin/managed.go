package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// scopeSet is those that a manifest declares, or the provisioner manages.
type scopeSet map[Scope]bool

// state returns the state of the provisioner when all of the scopes are managed.
func (s scopeSet) state(ns string) config.Provisioner {
	p := config.Provisioner{Namespace: ns}
	for at := range s {
		switch {
		case at.Entity != "":
			if p.Entities == nil {
				p.Entities = map[string][]string{}
			}
			p.Entities[at.Entity] = append(p.Entities[at.Entity], cmp.Or(at.Resource, layout.DefaultResource))
		case at.Resource != "":
			p.Resources = append(p.Resources, at.Resource)
		default:
			p.System = true
		}
	}
	slices.Sort(p.Resources)
	for _, resources := range p.Entities {
		slices.Sort(resources)
	}
	return p
}

// managedScopes returns the scopes of a state, the most specific first.
func managedScopes(p config.Provisioner) []Scope {
	var own, out []Scope
	for _, entity := range slices.Sorted(maps.Keys(p.Entities)) {
		for _, resource := range p.Entities[entity] {
			if resource == layout.DefaultResource {
				out = append(out, Scope{Entity: entity})
			} else {
				own = append(own, Scope{entity, resource})
			}
		}
	}
	out = append(own, out...)
	for _, resource := range p.Resources {
		out = append(out, Scope{Resource: resource})
	}
	if p.System {
		out = append(out, Scope{})
	}
	return out
}

// managed is the provisioner's state, and its items as they were read.
type managed struct {
	config.Provisioner
	items map[item.Key]item.Item
}

// managed reads the provisioner's state.
func (n *Namespace) managed(ctx context.Context) (managed, error) {
	m := managed{Provisioner: config.Provisioner{Namespace: n.id}, items: map[item.Key]item.Item{}}
	key := layout.ProvisionerKey(n.id)
	items, err := n.calls.read(ctx, key)
	if err != nil || items[0] == nil {
		return m, err
	}
	m.items[key] = items[0]
	if m.Provisioner, err = config.DecodeProvisioner(items[0]); err != nil || !m.Paged {
		return m, err
	}
	if err := n.readPages(ctx, m.items); err != nil {
		return m, err
	}
	m.Entities = map[string][]string{}
	for _, k := range layout.ProvisionerPageKeys(n.id) {
		if m.items[k] == nil {
			continue
		}
		page, err := config.DecodeProvisioner(m.items[k])
		if err != nil {
			return m, err
		}
		maps.Copy(m.Entities, page.Entities)
		m.Described = append(m.Described, page.Described...)
	}
	return m, nil
}

func (n *Namespace) readPages(ctx context.Context, into map[item.Key]item.Item) error {
	keys := layout.ProvisionerPageKeys(n.id)
	pages, err := n.calls.read(ctx, keys...)
	for i, page := range pages {
		if page != nil {
			into[keys[i]] = page
		}
	}
	return err
}

// pagesAtOnce is how many pages one transaction stores, each of up to 400 KB, of the 4 MB
// that it may have.
const pagesAtOnce = 8

// remember stores the state of the provisioner, if it is still as it was read, else ErrBusy, also
// where there is nothing to change. Pages come before the item that says that there are some, and
// the first of them only while that item is unchanged. Each is replaced by itself: a state that is
// half stored has everything that both have.
func (n *Namespace) remember(ctx context.Context, was managed, p config.Provisioner) (managed, error) {
	p.Paged = was.Paged
	p = p.Fitting()
	now := managed{Provisioner: p, items: maps.Clone(was.items)}
	if p.Paged && !was.Paged { // some may be left of an attempt that failed
		if err := n.readPages(ctx, now.items); err != nil {
			return now, err
		}
	}
	var writes []item.Write
	for _, page := range p.Pages() {
		k := item.KeyOf(page)
		if !item.EqualItems(now.items[k], page) {
			writes = append(writes, config.ReplacePage(page, now.items[k]))
		}
		now.items[k] = page
	}
	it, key := p.Item(), layout.ProvisionerKey(n.id)
	known := now.items[key]
	check := []item.Write{item.Check{Key: key, If: conditionOn(known)}}
	for some := range slices.Chunk(writes, pagesAtOnce) {
		if err := busyIfRefused(n.transact(ctx, slices.Concat(some, check)...)); err != nil {
			return now, err
		}
		check = nil
	}
	for attr, v := range known { // what ours does not know stays
		if _, ours := it[attr]; !ours {
			it[attr] = v
		}
	}
	now.items[key] = it
	return now, busyIfRefused(n.transact(ctx, item.Put{Item: it, If: conditionOn(known)}))
}

func busyIfRefused(err error) error {
	if _, raced := refused(err); raced {
		return ErrBusy
	}
	return err
}
