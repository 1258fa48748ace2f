package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Namespace is one tenant within a table: entities, limits, buckets, usage and an audit trail of
// its own. Get it from [Table.Namespace] or [Table.Register].
type Namespace struct {
	table     *Table
	calls     calls
	id, name  string
	principal string // empty: as the options of the table say
	once      string // what Reset and Credit are carried out once for; empty: each call
}

// ID returns the id that prefixes the keys of the namespace.
func (n *Namespace) ID() string { return n.id }

// Name returns the name under which the namespace was found.
func (n *Namespace) Name() string { return n.name }

// NamespaceInfo is the registry's entry of a namespace.
type NamespaceInfo struct {
	ID, Name  string
	Status    NamespaceStatus
	CreatedAt time.Time
	DeletedAt time.Time // zero unless deleted
}

// NamespaceStatus is the state of a namespace.
type NamespaceStatus string

// The life of a namespace.
const (
	NamespaceActive  NamespaceStatus = config.NamespaceActive
	NamespaceDeleted NamespaceStatus = config.NamespaceDeleted // can be recovered or purged
	NamespacePurging NamespaceStatus = config.NamespacePurging // can only be purged on
)

func infoOf(ns config.Namespace) NamespaceInfo {
	return NamespaceInfo{
		ID: ns.ID, Name: ns.Name, Status: NamespaceStatus(ns.Status),
		CreatedAt: parseTime(ns.CreatedAt), DeletedAt: parseTime(ns.DeletedAt),
	}
}

func (t *Table) handle(ns config.Namespace) *Namespace {
	return &Namespace{table: t, calls: t.calls, id: ns.ID, name: ns.Name}
}

func checkNamespace(name string) error {
	if namespace.CheckName(name) != nil {
		return validate.Invalid("namespace", name,
			"1 to 256 bytes of text without control characters, other than the reserved \"_\"")
	}
	return nil
}

func (t *Table) find(ctx context.Context, name string) (ns config.Namespace, err error) {
	if err := checkNamespace(name); err != nil {
		return ns, err
	}
	err = t.calls.again(ctx, func(ctx context.Context) (err error) {
		ns, err = namespace.Find(ctx, t.calls.db, name, t.opts.Now())
		return err
	})
	return ns, err
}

// Namespace returns a namespace by its name. The error is ErrInvalid, limiter.ErrNamespace if there
// is none, ErrVersion, ErrUnavailable.
func (t *Table) Namespace(ctx context.Context, name string) (*Namespace, error) {
	ns, err := t.find(ctx, name)
	if err != nil {
		return nil, fail(err, "find namespace %q", name)
	}
	return t.handle(ns), nil
}

// Register returns a namespace by its name, and registers it if there is none.
// A name whose namespace was deleted gets a new, empty one.
func (t *Table) Register(ctx context.Context, name string) (*Namespace, error) {
	sent := false
	for range callAttempts {
		ns, err := t.find(ctx, name)
		if err == nil {
			return t.handle(ns), nil
		}
		if sent && store.KindOf(err) != 0 { // it is registered, by this call or by another
			err = &store.Failure{Kind: store.Unknown, Op: "Register", Err: err}
		}
		if errors.Is(err, limiter.ErrNamespace) {
			// Sending it again is no harm: only one registration can win.
			err = t.calls.again(ctx, func(ctx context.Context) error {
				return namespace.Register(ctx, t.calls.db, name, t.opts.Now())
			})
			sent = true
		}
		if err != nil {
			return nil, fail(err, "register namespace %q", name)
		}
	}
	return nil, fail(ErrBusy, "register namespace %q", name)
}

// Lookup returns the registry's entry of an active namespace; the error is limiter.ErrNamespace if
// none has the name.
func (t *Table) Lookup(ctx context.Context, name string) (NamespaceInfo, error) {
	ns, err := t.find(ctx, name)
	if err != nil {
		return NamespaceInfo{}, fail(err, "look up namespace %q", name)
	}
	return infoOf(ns), nil
}

// Namespaces lists the active namespaces, sorted by name.
func (t *Table) Namespaces(ctx context.Context) iter.Seq2[NamespaceInfo, error] {
	return t.registry(ctx, config.Namespaces())
}

func (t *Table) registry(ctx context.Context, q item.Query) iter.Seq2[NamespaceInfo, error] {
	return decoded(t.calls.query(ctx, q), func(it item.Item) (NamespaceInfo, bool, error) {
		ns, err := config.DecodeNamespace(it)
		return infoOf(ns), true, err
	}, "list namespaces")
}

// Orphans lists the namespaces that no longer have a name, but still have items: deleted ones, ones
// being purged, and ones that a deletion by another client left half-way.
func (t *Table) Orphans(ctx context.Context) iter.Seq2[NamespaceInfo, error] {
	return sequence(func(yield func(NamespaceInfo) bool) error {
		named := map[string]bool{}
		for ns, err := range t.Namespaces(ctx) {
			if err != nil {
				return err
			}
			named[ns.ID] = true
		}
		for ns, err := range t.registry(ctx, config.NamespaceIDs()) {
			if isNamed := named[ns.ID] && ns.Status == NamespaceActive; err != nil || !isNamed && !yield(ns) {
				return err
			}
		}
		return nil
	})
}

// DeleteNamespace takes the name away from the namespace with an id, which [Table.Lookup] returns.
// Its items stay until it is purged, and it can be recovered. Running Go clients stop within their
// Options.ConfigTTL; Python clients go on. The error is limiter.ErrNamespace if there is no
// namespace with that id, ErrState if it is deleted already, or if its name belongs to another one.
func (t *Table) DeleteNamespace(ctx context.Context, id string) error {
	ns, err := t.byID(ctx, id)
	if err != nil {
		return fail(err, "delete namespace")
	}
	err = t.calls.transact(ctx, ns.Retire(layout.Timestamp(t.now()))...)
	if reasons, ok := refused(err); ok {
		why := "its record by id says that it is not active"
		if reasons[0].Refused {
			why = fmt.Sprintf("the name does not belong to id %q any more", ns.ID)
		}
		err = fmt.Errorf("%w: %s", ErrState, why)
	}
	return fail(err, "delete namespace %q", ns.Name)
}

// byID returns the record of a namespace by its id. The error is limiter.ErrNamespace if there is
// none.
func (t *Table) byID(ctx context.Context, id string) (ns config.Namespace, err error) {
	items, err := t.calls.read(ctx, layout.NamespaceIDKey(id))
	if err != nil {
		return ns, err
	}
	if items[0] == nil {
		return ns, fmt.Errorf("%w: id %q", limiter.ErrNamespace, id)
	}
	return config.DecodeNamespace(items[0])
}

// RecoverNamespace gives a deleted namespace its name back and returns it. The error is
// limiter.ErrNamespace if there is no namespace with that id, ErrState if it is active or being
// purged, or if its name now belongs to another one.
func (t *Table) RecoverNamespace(ctx context.Context, id string) (*Namespace, error) {
	ns, err := t.byID(ctx, id)
	if err != nil {
		return nil, fail(err, "recover namespace")
	}
	err = t.calls.transact(ctx, ns.Recover()...)
	if reasons, ok := refused(err); ok {
		if reasons[0].Refused {
			return nil, fail(ErrState, "recover namespace %q: a namespace with this name is active", ns.Name)
		}
		return nil, fail(ErrState, "recover namespace %q: it is being purged", ns.Name)
	}
	if err != nil {
		return nil, fail(err, "recover namespace %q", ns.Name)
	}
	return t.handle(ns), nil
}
