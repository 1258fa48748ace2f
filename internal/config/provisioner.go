package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const (
	attrManagedSystem    = "managed_system"
	attrManagedRes       = "managed_resources"
	attrManagedEntities  = "managed_entities"
	attrManagedPages     = "managed_pages"
	attrManagedDescribed = "managed_described"
	attrLastApplied      = "last_applied"
	attrAppliedHash      = "applied_hash"
)

// Provisioner is the declarative provisioner's state in a namespace: what it manages.
type Provisioner struct {
	Namespace   string
	System      bool
	Resources   []string
	Entities    map[string][]string // resources by entity
	Described   []string            // entities whose parent, name and metadata are managed; only in our state
	LastApplied string              // see [layout.Timestamp]
	Hash        string              // of the manifest that was applied last
	// Paged means that the entities are not in the item but in its pages, see Pages.
	Paged bool
}

// maxOneItem is the greatest size of a state in one item, in bytes. A larger one is paged.
const maxOneItem = item.MaxItemSize / 2

// Item returns the state in stored form, without its pages. Unlike other clients' states, it can be
// found by namespace, so purging a namespace removes it. It sets every attribute of ours, also the
// empty ones, so that nothing of an earlier state is left.
func (p Provisioner) Item() item.Item {
	k := layout.ProvisionerKey(p.Namespace)
	it := k.Item()
	it[attrManagedSystem] = item.Bool(p.System)
	it[attrManagedRes] = item.List(p.Resources)
	if p.Paged {
		p.Entities, p.Described = nil, nil
		it[attrManagedPages] = item.N(layout.ProvisionerPages)
	}
	it[attrManagedEntities], it[attrManagedDescribed] = entityLists(p.Entities), item.List(p.Described)
	it[attrLastApplied], it[attrAppliedHash] = item.S(p.LastApplied), item.S(p.Hash)
	return layout.WithGSI4(it, p.Namespace, k.PK)
}

func entityLists(of map[string][]string) item.Value {
	entities := make(item.Item, len(of))
	for entity, resources := range of {
		entities[entity] = item.List(resources)
	}
	return item.Map(entities)
}

// Fitting returns the state, paged if it does not fit into one item. A paged state stays paged.
func (p Provisioner) Fitting() Provisioner {
	p.Paged = p.Paged || item.Size(p.Item()) > maxOneItem
	return p
}

// Pages returns the items with the entities of a paged state; none otherwise. Other clients do not
// read them, so to them no entity is managed.
func (p Provisioner) Pages() []item.Item {
	if !p.Paged {
		return nil
	}
	page := func(entity string) uint32 {
		h := fnv.New32a()
		h.Write([]byte(entity))
		return h.Sum32() % layout.ProvisionerPages
	}
	of, described := make([]map[string][]string, layout.ProvisionerPages), make([][]string, layout.ProvisionerPages)
	for entity, resources := range p.Entities {
		i := page(entity)
		if of[i] == nil {
			of[i] = map[string][]string{}
		}
		of[i][entity] = resources
	}
	for _, entity := range p.Described {
		i := page(entity)
		described[i] = append(described[i], entity)
	}
	out := make([]item.Item, layout.ProvisionerPages)
	for i, k := range layout.ProvisionerPageKeys(p.Namespace) {
		h := sha256.New()
		for _, entity := range slices.Sorted(maps.Keys(of[i])) {
			fmt.Fprintf(h, "%q %q\n", entity, of[i][entity])
		}
		for _, entity := range described[i] {
			fmt.Fprintf(h, "%q\n", entity)
		}
		it := k.Item()
		it[attrManagedEntities], it[attrManagedDescribed] = entityLists(of[i]), item.List(described[i])
		it[attrAppliedHash] = item.S(hex.EncodeToString(h.Sum(nil)))
		out[i] = layout.WithGSI4(it, p.Namespace, k.PK)
	}
	return out
}

// ReplacePage stores a page in place of the one that was read; nil means there was none.
func ReplacePage(page, was item.Item) item.Put {
	if was == nil {
		return item.Put{Item: page, If: item.Absent(item.AttrPK)}
	}
	if was[attrAppliedHash] == nil {
		return item.Put{Item: page, If: item.All(item.Exists(item.AttrPK), item.Absent(attrAppliedHash))}
	}
	return item.Put{Item: page, If: item.Compare(attrAppliedHash, item.Eq, was[attrAppliedHash])}
}

// IsProvisioner reports whether a key belongs to a provisioner's state or to one of its pages.
func IsProvisioner(k item.Key) bool {
	ns, _, _ := layout.CutNamespace(k.PK)
	return k == layout.ProvisionerKey(ns) ||
		strings.HasPrefix(k.SK, layout.SKProvisioner) && slices.Contains(layout.ProvisionerPageKeys(ns), k)
}

// DecodeProvisioner decodes the provisioner's state, or one of its pages, which has only entities.
func DecodeProvisioner(it item.Item) (Provisioner, error) {
	r := item.Reader{It: it}
	var p Provisioner
	p.Namespace, _ = layout.Under(&r, "SYSTEM#")
	if !IsProvisioner(item.KeyOf(it)) {
		r.Fail("%w", item.ErrKey)
	}
	p.Paged = r.Int(attrManagedPages) > 0
	p.Described = names(r.Texts(attrManagedDescribed))
	p.System, p.Resources = r.Flag(attrManagedSystem), names(r.Texts(attrManagedRes))
	entities := r.Entries(attrManagedEntities)
	for _, entity := range slices.Sorted(maps.Keys(entities)) {
		if p.Entities == nil {
			p.Entities = make(map[string][]string, len(entities))
		}
		list, err := item.Strings(entities[entity])
		if err != nil {
			r.Fail("attribute %q, entity %q: %w", attrManagedEntities, entity, err)
		}
		p.Entities[entity] = names(list)
	}
	p.LastApplied, p.Hash = r.Str(attrLastApplied), r.Str(attrAppliedHash)
	return item.Decoded(&r, "provisioner", p)
}

// names returns the names in a list, sorted, each once, and none that is empty.
func names(list []string) []string {
	once := slices.Compact(slices.Sorted(slices.Values(list)))
	return slices.DeleteFunc(once, func(name string) bool { return name == "" })
}
