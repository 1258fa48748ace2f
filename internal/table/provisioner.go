package table

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Provisioner is what the declarative provisioner manages in a namespace.
type Provisioner struct {
	Namespace   string
	System      bool
	Resources   []string
	Entities    map[string][]string // resources by entity
	LastApplied string              // see [Timestamp]
	Hash        string              // of the manifest applied last
	// Paged says that the entities do not stand in the item but in its pages: see
	// Pages.
	Paged bool
}

// maxOneItem is how many bytes the state may have in one item; with more it is
// paged.
const maxOneItem = item.MaxItemSize / 2

// provisionerPages is over how many items a state is spread that is paged. An entity
// stands in the page that its name says, so that each page can be replaced by itself.
const provisionerPages = 256

// Item returns the state as it is stored, without its pages. Unlike other clients' it
// can be found by namespace, so that purging a namespace removes it.
func (p Provisioner) Item() item.Item {
	k := ProvisionerKey(p.Namespace)
	it := newItem(k)
	it[attrManagedSystem] = item.Bool(p.System)
	it[attrManagedRes] = list(p.Resources)
	it[attrManagedEntities] = entityLists(p.Entities)
	if p.Paged {
		it[attrManagedEntities], it[attrManagedPages] = item.Map(item.Item{}), item.N(provisionerPages)
	}
	it[attrLastApplied], it[attrAppliedHash] = item.S(p.LastApplied), item.S(p.Hash)
	return gsi4(item.Item(it), p.Namespace, k.PK)
}

func entityLists(of map[string][]string) item.Value {
	entities := make(item.Item, len(of))
	for entity, resources := range of {
		entities[entity] = list(resources)
	}
	return item.Map(entities)
}

// Fitting returns the state, paged if it does not fit into one item. One that is
// paged stays so.
func (p Provisioner) Fitting() Provisioner {
	p.Paged = p.Paged || item.Size(p.Item()) > maxOneItem
	return p
}

// Pages returns the items of the entities of a state that is paged; none of one that
// is not. Other clients do not read them: to them no entity is managed.
func (p Provisioner) Pages() []item.Item {
	if !p.Paged {
		return nil
	}
	of := make([]map[string][]string, provisionerPages)
	for entity, resources := range p.Entities {
		h := fnv.New32a()
		h.Write([]byte(entity))
		i := h.Sum32() % provisionerPages
		if of[i] == nil {
			of[i] = map[string][]string{}
		}
		of[i][entity] = resources
	}
	out := make([]item.Item, provisionerPages)
	for i, k := range ProvisionerPageKeys(p.Namespace) {
		h := sha256.New()
		for _, entity := range slices.Sorted(maps.Keys(of[i])) {
			fmt.Fprintf(h, "%q %q\n", entity, of[i][entity])
		}
		it := newItem(k)
		it[attrManagedEntities] = entityLists(of[i])
		it[attrAppliedHash] = item.S(hex.EncodeToString(h.Sum(nil)))
		out[i] = gsi4(item.Item(it), p.Namespace, k.PK)
	}
	return out
}

// ReplacePage stores a page in place of the one that was read; nil: there was none.
func ReplacePage(page, was item.Item) item.Put {
	if was == nil {
		return item.Put{Item: page, If: item.Absent(item.AttrPK)}
	}
	if was[attrAppliedHash] == nil {
		return item.Put{Item: page, If: item.All(item.Exists(item.AttrPK), item.Absent(attrAppliedHash))}
	}
	return item.Put{Item: page, If: item.Compare(attrAppliedHash, item.Eq, was[attrAppliedHash])}
}

// IsProvisioner reports whether the key is that of a provisioner's state or of one of its pages.
func IsProvisioner(k item.Key) bool {
	ns, _, _ := CutNamespace(k.PK)
	return k == ProvisionerKey(ns) ||
		strings.HasPrefix(k.SK, skProvisioner) && slices.Contains(ProvisionerPageKeys(ns), k)
}

// DecodeProvisioner reads the provisioner's state, or a page of it, which has
// entities only.
func DecodeProvisioner(it item.Item) (Provisioner, error) {
	r := reader{it: it}
	var p Provisioner
	p.Namespace, _ = r.under("SYSTEM#")
	if !IsProvisioner(item.KeyOf(it)) {
		r.fail("%w", errKey)
	}
	p.Paged = r.int(attrManagedPages) > 0
	p.System, p.Resources = r.flag(attrManagedSystem), r.texts(attrManagedRes)
	entities := r.entries(attrManagedEntities)
	for _, entity := range slices.Sorted(maps.Keys(entities)) {
		if p.Entities == nil {
			p.Entities = make(map[string][]string, len(entities))
		}
		list, err := texts(entities[entity])
		if err != nil {
			r.fail("attribute %q, entity %q: %w", attrManagedEntities, entity, err)
		}
		p.Entities[entity] = list
	}
	p.LastApplied, p.Hash = r.str(attrLastApplied), r.str(attrAppliedHash)
	if err := r.named("provisioner"); err != nil {
		return Provisioner{}, err
	}
	return p, nil
}
