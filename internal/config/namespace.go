package config

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The statuses of a namespace.
const (
	NamespaceActive  = "active"
	NamespaceDeleted = "deleted" // can be recovered
	NamespacePurging = "purging" // its items are being removed permanently
)

const (
	attrNamespaceID   = "namespace_id"
	attrNamespaceName = "namespace_name"
	attrStatus        = "status"
	attrDeletedAt     = "deleted_at"
)

// Namespace maps a namespace's name to the id with which its keys begin. It is stored twice:
// forward by name (only if active) and reverse by id.
type Namespace struct {
	ID, Name  string
	Status    string // if empty, active is written
	CreatedAt string // see [layout.Timestamp]
	DeletedAt string // empty unless deleted
}

func (n Namespace) item(k item.Key) item.Item {
	it := k.Item()
	status := n.Status
	if status == "" {
		status = NamespaceActive
	}
	it[attrNamespaceID], it[attrNamespaceName] = item.S(n.ID), item.S(n.Name)
	it[attrStatus], it[layout.AttrCreatedAt] = item.S(status), item.S(n.CreatedAt)
	layout.PutText(it, attrDeletedAt, n.DeletedAt)
	return layout.WithGSI4(it, layout.TableNamespace, k.PK)
}

// Forward returns the item that maps the name to the id.
func (n Namespace) Forward() item.Item { return n.item(layout.NamespaceKey(n.Name)) }

// Reverse returns the item that maps the id to the name.
func (n Namespace) Reverse() item.Item { return n.item(layout.NamespaceIDKey(n.ID)) }

// Register stores both items in a transaction, if neither exists.
func (n Namespace) Register() []item.Write {
	return []item.Write{
		item.Put{Item: n.Forward(), If: item.Absent(item.AttrPK)},
		item.Put{Item: n.Reverse(), If: item.Absent(item.AttrPK)},
	}
}

// InUse is a check that holds while the namespace is active. In a transaction, it prevents writes
// to a deleted namespace.
func (n Namespace) InUse() item.Check {
	return item.Check{Key: layout.NamespaceIDKey(n.ID), If: item.Compare(attrStatus, item.Eq, item.S(NamespaceActive))}
}

// Retire removes the namespace's name and marks it deleted, in a transaction. Its items stay, and
// it can be recovered.
func (n Namespace) Retire(at string) []item.Write {
	return []item.Write{
		item.Delete{Key: layout.NamespaceKey(n.Name), If: item.Compare(attrNamespaceID, item.Eq, item.S(n.ID))},
		item.Update{
			Key: layout.NamespaceIDKey(n.ID),
			Set: []item.Attr{{Name: attrStatus, Value: item.S(NamespaceDeleted)}, {Name: attrDeletedAt, Value: item.S(at)}},
			If:  item.Compare(attrStatus, item.Eq, item.S(NamespaceActive)),
		},
	}
}

// Recover gives a deleted namespace its name back, in a transaction, unless another namespace has
// taken the name. It also recovers a namespace that is still active but has lost its name: other
// clients delete in three steps, and may have stopped after the first.
func (n Namespace) Recover() []item.Write {
	active := Namespace{ID: n.ID, Name: n.Name, CreatedAt: n.CreatedAt}
	return []item.Write{
		item.Put{Item: active.Forward(), If: item.Absent(item.AttrPK)},
		item.Update{
			Key:    layout.NamespaceIDKey(n.ID),
			Set:    []item.Attr{{Name: attrStatus, Value: item.S(NamespaceActive)}},
			Remove: []string{attrDeletedAt},
			If: item.Any(
				item.Compare(attrStatus, item.Eq, item.S(NamespaceDeleted)),
				item.Compare(attrStatus, item.Eq, item.S(NamespaceActive))),
		},
	}
}

// Purge marks a deleted namespace as being permanently removed.
func (n Namespace) Purge() item.Update {
	return item.Update{
		Key: layout.NamespaceIDKey(n.ID),
		Set: []item.Attr{{Name: attrStatus, Value: item.S(NamespacePurging)}},
		If: item.Any(item.Compare(attrStatus, item.Eq, item.S(NamespaceDeleted)),
			item.Compare(attrStatus, item.Eq, item.S(NamespacePurging))),
	}
}

// Purged removes the record of a namespace that is being permanently removed and has nothing left.
func (n Namespace) Purged() item.Delete {
	return item.Delete{Key: layout.NamespaceIDKey(n.ID), If: item.Any(
		item.Absent(item.AttrPK), item.Compare(attrStatus, item.Eq, item.S(NamespacePurging)))}
}

// IsNamespace reports whether an item is a namespace record, by name or by id.
func IsNamespace(it item.Item) bool {
	sk := item.KeyOf(it).SK
	return strings.HasPrefix(sk, layout.SKNamespace) || strings.HasPrefix(sk, layout.SKNamespaceID)
}

// IsNamespaceID reports whether keys can begin with the id of a namespace and a slash.
func IsNamespaceID(id string) bool {
	return id != "" && id != layout.TableNamespace && !strings.Contains(id, "/")
}

// DecodeNamespace decodes either of the two items. The id must be valid in keys.
func DecodeNamespace(it item.Item) (Namespace, error) {
	r := item.Reader{It: it}
	k := item.KeyOf(it)
	n := Namespace{ID: r.Need(attrNamespaceID), Name: r.Need(attrNamespaceName)}
	if k != layout.NamespaceKey(n.Name) && k != layout.NamespaceIDKey(n.ID) {
		r.Fail("%w", item.ErrKey)
	}
	if !IsNamespaceID(n.ID) {
		r.Fail("attribute %q is %q, want no %q and no slash", attrNamespaceID, n.ID, layout.TableNamespace)
	}
	n.Status = r.Str(attrStatus)
	if n.Status == "" {
		n.Status = NamespaceActive
	}
	n.CreatedAt, n.DeletedAt = r.Str(layout.AttrCreatedAt), r.Str(attrDeletedAt)
	return item.Decoded(&r, "namespace", n)
}
