package table

// Entity is the metadata of an entity: written once, never changed.
type Entity struct {
	Namespace, ID string
	Name          string // empty on writing: the id
	Parent        string // empty: none
	Cascade       bool   // whether what the entity takes is charged to Parent too
	Metadata      Item   // anything; nil and empty are the same
	CreatedAt     string // see [Timestamp]
}

// IsEntity tells whether the key of an item is that of entity metadata.
func IsEntity(it Item) bool { return KeyOf(it).SK == skMeta }

// Key returns the key of the entity's metadata.
func (e Entity) Key() Key { return EntityKey(e.Namespace, e.ID) }

// Item returns the entity as it is stored.
func (e Entity) Item() Item {
	it := newItem(e.Key())
	name := e.Name
	if name == "" {
		name = e.ID
	}
	it[attrEntityID], it[attrName] = S(e.ID), S(name)
	it[attrParentID] = sOrNull(e.Parent)
	it[attrCascade] = Bool(e.Cascade)
	metadata := e.Metadata
	if metadata == nil {
		metadata = Item{}
	}
	it[attrMetadata] = Map(metadata)
	it[attrCreatedAt] = S(e.CreatedAt)
	if e.Parent != "" {
		it[AttrGSI1PK] = S(e.Namespace + "/PARENT#" + e.Parent)
		it[AttrGSI1SK] = S("CHILD#" + e.ID)
	}
	return gsi4(Item(it), e.Namespace, e.Key().PK)
}

// Create stores the entity if there is none with its id.
func (e Entity) Create() Put { return Put{Item: e.Item(), If: Absent(AttrPK)} }

// DecodeEntity reads the metadata of an entity.
func DecodeEntity(it Item) (Entity, error) {
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
