package table

import (
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Entity is the metadata of an entity. Python clients write it once and never change
// it; package admin replaces it as a whole.
type Entity struct {
	Namespace, ID string
	Name          string    // empty on writing: the id
	Parent        string    // empty: none
	Cascade       bool      // whether what the entity takes is charged to Parent too
	Metadata      item.Item // anything; nil and empty are the same
	CreatedAt     string    // see [Timestamp]
}

// IsEntity reports whether the key of an item is that of entity metadata.
func IsEntity(it item.Item) bool { return item.KeyOf(it).SK == skMeta }

// EntityOf returns the entity whose metadata has the key of an item.
func EntityOf(it item.Item) (id string, ok bool) {
	_, rest, _ := CutNamespace(item.KeyOf(it).PK)
	id, ok = strings.CutPrefix(rest, EntityPKPart)
	return id, ok && IsEntity(it)
}

// Key returns the key of the entity's metadata.
func (e Entity) Key() item.Key { return EntityKey(e.Namespace, e.ID) }

// Item returns the entity as it is stored.
func (e Entity) Item() item.Item {
	it := newItem(e.Key())
	name := e.Name
	if name == "" {
		name = e.ID
	}
	it[attrEntityID], it[attrName] = item.S(e.ID), item.S(name)
	it[attrParentID] = sOrNull(e.Parent)
	it[attrCascade] = item.Bool(e.Cascade)
	it[attrMetadata] = item.Map(e.Metadata)
	it[attrCreatedAt] = item.S(e.CreatedAt)
	if e.Parent != "" {
		it[item.AttrGSI1PK] = item.S(e.Namespace + "/PARENT#" + e.Parent)
		it[item.AttrGSI1SK] = item.S("CHILD#" + e.ID)
	}
	return gsi4(item.Item(it), e.Namespace, e.Key().PK)
}

// Create stores the entity if there is none with its id.
func (e Entity) Create() item.Put { return item.Put{Item: e.Item(), If: item.Absent(item.AttrPK)} }

// Update stores what Item says of an entity that is there. What other clients keep in
// the item stays, and so does when it was created.
func (e Entity) Update() item.Update {
	u := item.Update{Key: e.Key(), If: item.Exists(item.AttrPK)}
	it := e.Item()
	for _, attr := range slices.Sorted(maps.Keys(it)) {
		switch a := (item.Attr{Name: attr, Value: it[attr]}); attr {
		case item.AttrPK, item.AttrSK:
		case attrCreatedAt:
			u.SetIfAbsent = append(u.SetIfAbsent, a)
		default:
			u.Set = append(u.Set, a)
		}
	}
	if e.Parent == "" {
		u.Remove = []string{item.AttrGSI1PK, item.AttrGSI1SK}
	}
	return u
}

// Move stores the parent and the cascade flag of an entity that is there, and nothing else.
func (e Entity) Move() item.Update {
	u := e.Update()
	u.SetIfAbsent = nil
	u.Set = slices.DeleteFunc(u.Set, func(a item.Attr) bool {
		return !slices.Contains([]string{attrParentID, attrCascade, item.AttrGSI1PK, item.AttrGSI1SK}, a.Name)
	})
	return u
}

// DecodeEntity reads the metadata of an entity.
func DecodeEntity(it item.Item) (Entity, error) {
	r := reader{it: it}
	var e Entity
	e.Namespace, e.ID = r.under("ENTITY#")
	r.sk(skMeta)
	e.Name = r.str(attrName)
	if e.Name == "" {
		e.Name = e.ID
	}
	e.Parent = r.str(attrParentID)
	e.Cascade = r.flag(attrCascade)
	e.Metadata = r.entries(attrMetadata)
	e.CreatedAt = r.str(attrCreatedAt)
	if err := r.named("entity"); err != nil {
		return Entity{}, err
	}
	return e, nil
}

// Unchanged is a check that holds while the entity exists and has the same parent.
func (e Entity) Unchanged() item.Check {
	cond := item.Compare(attrParentID, item.Eq, sOrNull(e.Parent))
	if e.Parent == "" {
		cond = item.Any(cond, item.Absent(attrParentID))
	}
	return item.Check{Key: e.Key(), If: item.All(item.Exists(item.AttrPK), cond)}
}

// Adopt tells a bucket shard of the entity who its parent is and whether it pays
// too. It never creates the shard.
func (e Entity) Adopt(bucket item.Key) item.Update {
	u := item.Update{
		Key: bucket, If: item.Exists(item.AttrPK),
		Set: []item.Attr{{Name: attrCascade, Value: item.Bool(e.Cascade)}},
	}
	if e.Parent == "" {
		u.Remove = append(u.Remove, attrParentID)
	} else {
		u.Set = append(u.Set, item.Attr{Name: attrParentID, Value: item.S(e.Parent)})
	}
	return u
}
