package table

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// The life of a namespace.
const (
	NamespaceActive  = "active"
	NamespaceDeleted = "deleted" // can be recovered
	NamespacePurging = "purging" // its items are being removed, for good
)

// Namespace relates a namespace's name to the id that keys begin with. It is
// stored twice: forward by name (active ones only) and reverse by id.
type Namespace struct {
	ID, Name  string
	Status    string // empty on writing: active
	CreatedAt string // see [Timestamp]
	DeletedAt string // empty unless deleted
}

func (n Namespace) item(k item.Key) item.Item {
	it := newItem(k)
	status := n.Status
	if status == "" {
		status = NamespaceActive
	}
	it[attrNamespaceID], it[attrNamespaceName] = item.S(n.ID), item.S(n.Name)
	it[attrStatus], it[attrCreatedAt] = item.S(status), item.S(n.CreatedAt)
	it.put(attrDeletedAt, n.DeletedAt)
	return gsi4(item.Item(it), TableNamespace, k.PK)
}

// Forward returns the item that maps the name to the id.
func (n Namespace) Forward() item.Item { return n.item(NamespaceKey(n.Name)) }

// Reverse returns the item that maps the id to the name.
func (n Namespace) Reverse() item.Item { return n.item(NamespaceIDKey(n.ID)) }

// Register stores both items, as a transaction, if neither exists.
func (n Namespace) Register() []item.Write {
	return []item.Write{
		item.Put{Item: n.Forward(), If: item.Absent(item.AttrPK)},
		item.Put{Item: n.Reverse(), If: item.Absent(item.AttrPK)},
	}
}

// InUse is a check that holds while the namespace is active: with it in a transaction
// nothing is written into a namespace that was deleted.
func (n Namespace) InUse() item.Check {
	return item.Check{Key: NamespaceIDKey(n.ID), If: item.Compare(attrStatus, item.Eq, item.S(NamespaceActive))}
}

// Retire takes the name away from the namespace and marks it deleted, as a
// transaction: its items stay and it can be recovered.
func (n Namespace) Retire(at string) []item.Write {
	return []item.Write{
		item.Delete{Key: NamespaceKey(n.Name), If: item.Compare(attrNamespaceID, item.Eq, item.S(n.ID))},
		item.Update{
			Key: NamespaceIDKey(n.ID),
			Set: []item.Attr{{Name: attrStatus, Value: item.S(NamespaceDeleted)}, {Name: attrDeletedAt, Value: item.S(at)}},
			If:  item.Compare(attrStatus, item.Eq, item.S(NamespaceActive)),
		},
	}
}

// Recover gives a deleted namespace its name back, as a transaction, unless another one has taken
// the name. It does the same for one that still counts as active and has lost its name. Other
// clients delete in three steps, and may have stopped after the first.
func (n Namespace) Recover() []item.Write {
	active := Namespace{ID: n.ID, Name: n.Name, CreatedAt: n.CreatedAt}
	return []item.Write{
		item.Put{Item: active.Forward(), If: item.Absent(item.AttrPK)},
		item.Update{
			Key:    NamespaceIDKey(n.ID),
			Set:    []item.Attr{{Name: attrStatus, Value: item.S(NamespaceActive)}},
			Remove: []string{attrDeletedAt},
			If: item.Any(
				item.Compare(attrStatus, item.Eq, item.S(NamespaceDeleted)),
				item.Compare(attrStatus, item.Eq, item.S(NamespaceActive))),
		},
	}
}

// Purge marks a deleted namespace as being removed for good.
func (n Namespace) Purge() item.Update {
	return item.Update{
		Key: NamespaceIDKey(n.ID),
		Set: []item.Attr{{Name: attrStatus, Value: item.S(NamespacePurging)}},
		If: item.Any(item.Compare(attrStatus, item.Eq, item.S(NamespaceDeleted)),
			item.Compare(attrStatus, item.Eq, item.S(NamespacePurging))),
	}
}

// Purged removes the record of a namespace that is being removed for good, and has
// nothing left.
func (n Namespace) Purged() item.Delete {
	return item.Delete{Key: NamespaceIDKey(n.ID), If: item.Any(
		item.Absent(item.AttrPK), item.Compare(attrStatus, item.Eq, item.S(NamespacePurging)))}
}

// IsNamespace reports whether the key of an item is that of a namespace, by name or
// by id.
func IsNamespace(it item.Item) bool {
	sk := item.KeyOf(it).SK
	return strings.HasPrefix(sk, skNamespace) || strings.HasPrefix(sk, skNamespaceID)
}

// DecodeNamespace reads either of the two items. The id must be fit for keys.
func DecodeNamespace(it item.Item) (Namespace, error) {
	r := reader{it: it}
	k := item.KeyOf(it)
	n := Namespace{ID: r.need(attrNamespaceID), Name: r.need(attrNamespaceName)}
	if k != NamespaceKey(n.Name) && k != NamespaceIDKey(n.ID) {
		r.fail("%w", errKey)
	}
	if n.ID == TableNamespace || strings.Contains(n.ID, "/") {
		r.fail("attribute %q is %q, want no %q and no slash", attrNamespaceID, n.ID, TableNamespace)
	}
	n.Status = r.str(attrStatus)
	if n.Status == "" {
		n.Status = NamespaceActive
	}
	n.CreatedAt, n.DeletedAt = r.str(attrCreatedAt), r.str(attrDeletedAt)
	if err := r.named("namespace"); err != nil {
		return Namespace{}, err
	}
	return n, nil
}

// Version is the table's version record.
type Version struct {
	Schema string
	// Lambda is empty for ours: other clients then leave our function alone.
	Lambda    string
	ClientMin string
	UpdatedAt string // see [Timestamp]
	UpdatedBy string // empty: not known
}

// Item returns the record as it is stored.
func (v Version) Item() item.Item {
	k := VersionKey()
	it := newItem(k)
	it[attrSchemaVersion] = item.S(v.Schema)
	it[attrLambdaVersion] = sOrNull(v.Lambda)
	it[attrClientMin] = item.S(v.ClientMin)
	it[attrUpdatedAt] = item.S(v.UpdatedAt)
	it[attrUpdatedBy] = sOrNull(v.UpdatedBy)
	return gsi4(item.Item(it), TableNamespace, k.PK)
}

// Create stores the record if there is none.
func (v Version) Create() item.Put { return item.Put{Item: v.Item(), If: item.Absent(item.AttrPK)} }

// Disown takes the aggregator's release out of the record, unless somebody has
// changed it since v was read.
func (v Version) Disown(at string) item.Update {
	return item.Update{
		Key: VersionKey(),
		Set: []item.Attr{
			{Name: attrLambdaVersion, Value: item.Null()}, {Name: attrUpdatedAt, Value: item.S(at)},
			{Name: attrUpdatedBy, Value: item.Null()},
		},
		If: item.Compare(attrLambdaVersion, item.Eq, item.S(v.Lambda)),
	}
}

// DecodeVersion reads the version record.
func DecodeVersion(it item.Item) (Version, error) {
	r := reader{it: it}
	if item.KeyOf(it) != VersionKey() {
		r.fail("%w", errKey)
	}
	v := Version{
		Schema: r.need(attrSchemaVersion), Lambda: r.str(attrLambdaVersion), ClientMin: r.str(attrClientMin),
		UpdatedAt: r.str(attrUpdatedAt), UpdatedBy: r.str(attrUpdatedBy),
	}
	if err := r.named("version"); err != nil {
		return Version{}, err
	}
	return v, nil
}
