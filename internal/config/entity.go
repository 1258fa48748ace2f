package config

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const attrMetadata = "metadata"

// Entity is the metadata of an entity. Python clients write it once and never change it; package
// admin replaces it completely.
type Entity struct {
	Namespace, ID string
	Name          string    // if empty, the id is written
	Parent        string    // empty: none
	Cascade       bool      // whether the entity's costs are charged to Parent too
	Metadata      item.Item // any content; nil and empty are equivalent
	CreatedAt     string    // see [layout.Timestamp]
}

// IsEntity reports whether an item is entity metadata, judging by its key.
func IsEntity(it item.Item) bool { return item.KeyOf(it).SK == layout.SKMeta }

// EntityOf returns the entity if the item has the key of entity metadata.
func EntityOf(it item.Item) (id string, ok bool) {
	_, rest, _ := layout.CutNamespace(item.KeyOf(it).PK)
	id, ok = strings.CutPrefix(rest, layout.EntityPKPart)
	return id, ok && IsEntity(it)
}

// Key returns the key of the entity's metadata.
func (e Entity) Key() item.Key { return layout.EntityKey(e.Namespace, e.ID) }

// Item returns the entity in stored form.
func (e Entity) Item() item.Item {
	it := e.Key().Item()
	name := e.Name
	if name == "" {
		name = e.ID
	}
	it[layout.AttrEntityID], it[layout.AttrName] = item.S(e.ID), item.S(name)
	it[layout.AttrParentID] = item.StringOrNull(e.Parent)
	it[layout.AttrCascade] = item.Bool(e.Cascade)
	it[attrMetadata] = item.Map(e.Metadata)
	it[layout.AttrCreatedAt] = item.S(e.CreatedAt)
	if e.Parent != "" {
		it[item.AttrGSI1PK] = item.S(e.Namespace + "/PARENT#" + e.Parent)
		it[item.AttrGSI1SK] = item.S("CHILD#" + e.ID)
	}
	return layout.WithGSI4(it, e.Namespace, e.Key().PK)
}

// Create stores the entity if there is none with its id.
func (e Entity) Create() item.Put { return item.Put{Item: e.Item(), If: item.Absent(item.AttrPK)} }

// Update stores the attributes of Item in an existing entity. Attributes of other clients and the
// creation time are kept.
func (e Entity) Update() item.Update {
	u := item.Update{Key: e.Key(), If: item.Exists(item.AttrPK)}
	setAll(&u, e.Item(), layout.AttrCreatedAt)
	if e.Parent == "" {
		u.Remove = []string{item.AttrGSI1PK, item.AttrGSI1SK}
	}
	return u
}

// Move stores only the parent and the cascade flag of an existing entity.
func (e Entity) Move() item.Update {
	u := e.Update()
	u.SetIfAbsent = nil
	u.Set = slices.DeleteFunc(u.Set, func(a item.Attr) bool {
		return !slices.Contains([]string{layout.AttrParentID, layout.AttrCascade, item.AttrGSI1PK, item.AttrGSI1SK}, a.Name)
	})
	return u
}

// DecodeEntity reads the metadata of an entity.
func DecodeEntity(it item.Item) (Entity, error) {
	r := item.Reader{It: it}
	var e Entity
	e.Namespace, e.ID = layout.Under(&r, "ENTITY#")
	r.SK(layout.SKMeta)
	e.Name = r.Str(layout.AttrName)
	if e.Name == "" {
		e.Name = e.ID
	}
	e.Parent = r.Str(layout.AttrParentID)
	e.Cascade = r.Flag(layout.AttrCascade)
	e.Metadata = r.Entries(attrMetadata)
	e.CreatedAt = r.Str(layout.AttrCreatedAt)
	return item.Decoded(&r, "entity", e)
}

// Unchanged is a check that holds while the entity exists and has the same parent.
func (e Entity) Unchanged() item.Check {
	cond := item.Compare(layout.AttrParentID, item.Eq, item.StringOrNull(e.Parent))
	if e.Parent == "" {
		cond = item.Any(cond, item.Absent(layout.AttrParentID))
	}
	return item.Check{Key: e.Key(), If: item.All(item.Exists(item.AttrPK), cond)}
}

// Adopt stores the entity's parent and cascade flag in one of its bucket shards. It never creates
// the shard.
func (e Entity) Adopt(bucket item.Key) item.Update {
	u := item.Update{
		Key: bucket, If: item.Exists(item.AttrPK),
		Set: []item.Attr{{Name: layout.AttrCascade, Value: item.Bool(e.Cascade)}},
	}
	if e.Parent == "" {
		u.Remove = append(u.Remove, layout.AttrParentID)
	} else {
		u.Set = append(u.Set, item.Attr{Name: layout.AttrParentID, Value: item.S(e.Parent)})
	}
	return u
}
