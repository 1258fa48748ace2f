//go:build interop

package interop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// admin opens the administration of the table.
func (w *world) admin() *admin.Table {
	w.Helper()
	a, err := admin.Open(w.Context(), w.engine.DynamoDB(), w.table, &admin.Options{Principal: "ops"})
	check.Must(w, err)
	return a
}

// manage returns the administration of the shared namespace.
func (w *world) manage() *admin.Namespace {
	w.Helper()
	n, err := w.admin().Namespace(w.Context(), namespace)
	check.Must(w, err)
	return n
}

// items lists everything that is stored under a namespace id, by a scan.
func (w *world) items(id string) (keys []string) {
	w.Helper()
	all, err := w.engine.Items(w.Context(), w.table)
	check.Must(w, err)
	for _, it := range all {
		if k := item.KeyOf(it); strings.HasPrefix(k.PK, id+"/") {
			keys = append(keys, k.PK+" "+k.SK)
		}
	}
	return keys
}

// fill stores items of every kind in the shared namespace, by both clients and the aggregator.
func (d *deployment) fill() *python {
	d.Helper()
	l, p, n := d.open(), d.world.python(), d.manage()
	p.call(nil, "create_entity", kv{"entity_id": "theirs"})
	p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100))})
	check.Must(d, check.Err(n.CreateEntity(d.Context(), admin.Entity{ID: "ours"})))
	check.Must(d, n.SetLimits(d.Context(), admin.Scope{Entity: "ours", Resource: "api"}, still("rpm", 50)))
	check.Must(d, n.SetLimits(d.Context(), admin.Scope{Resource: "api"}, still("rpm", 70)))
	for _, entity := range []string{"ours", "theirs"} {
		d.take(l, entity, "api", limiter.Costs{"rpm": 1})
		p.take(entity, "api", limiter.Costs{"rpm": 1})
	}
	d.rest()
	return p
}

// If one client deletes, recovers or purges a namespace, that holds for the other, with everything
// that both stored in it.
func TestNamespacesAreDeletedRecoveredAndPurged(t *testing.T) {
	deployed(t, func(d *deployment) {
		ctx := d.Context()
		for _, byPython := range []bool{true, false} {
			p := d.fill()
			id, a := d.ns, d.admin()
			if byPython {
				p.repository(nil, "delete_namespace", kv{"namespace": namespace})
			} else {
				check.Must(d, a.DeleteNamespace(ctx, id))
			}
			check.Is(d, check.Err(a.Namespace(ctx, namespace)), limiter.ErrNamespace,
				"deleted by Python %v: administration finds it", byPython)
			_, err := limiter.Open(ctx, d.engine.DynamoDB(), d.table,
				&limiter.Options{Namespace: namespace, Timeout: time.Minute})
			check.Is(d, err, limiter.ErrNamespace, "deleted by Python %v: a client opens it", byPython)
			d.wantOrphan(p, id)

			if byPython { // deleted by the other client
				check.Must(d, check.Err(a.RecoverNamespace(ctx, id)))
			} else {
				p.repository(nil, "recover_namespace", kv{"namespace_id": id})
			}
			l := d.open()
			check.Equal(d, l.NamespaceID(), id, "deleted by Python %v: recovered as", byPython)
			check.Equal(d, d.world.python().Namespace, id, "deleted by Python %v: Python finds again", byPython)

			if byPython {
				check.Must(d, a.DeleteNamespace(ctx, id))
				p.repository(nil, "purge_namespace", kv{"namespace_id": id})
				d.wantUsageOnly(id)
			} else {
				p.repository(nil, "delete_namespace", kv{"namespace": namespace})
			}
			check.Must(d, check.Err(a.PurgeNamespace(ctx, id)))
			left := d.items(id)
			if len(left) > 0 && !slices.Equal(left, []string{id + "/ENTITY# #DELETED"}) { // the note of the purge
				d.Errorf("purged by Python %v: %q are left", byPython, left)
			}
		}
	})
}

// wantUsageOnly checks that Python's purge leaves at most snapshots of usage. It deletes them while
// the aggregator still counts the deleted buckets, and stores them again.
func (d *deployment) wantUsageOnly(id string) {
	d.Helper()
	d.rest()
	for _, key := range d.items(id) {
		if !strings.Contains(key, " #USAGE#") {
			d.Errorf("purged by Python: %s is left", key)
		}
	}
}

// wantOrphan checks that both clients list a deleted namespace.
func (w *world) wantOrphan(p *python, id string) {
	w.Helper()
	var theirs []struct {
		ID string `json:"namespace_id"`
	}
	p.repository(&theirs, "list_orphan_namespaces", kv{})
	ids := []string{}
	for _, o := range theirs {
		ids = append(ids, o.ID)
	}
	if !slices.Contains(ids, id) {
		w.Errorf("Python lists the deleted namespaces %v, want %s among them", ids, id)
	}
	found := false
	for o, err := range w.admin().Orphans(w.Context()) {
		check.Must(w, err)
		found = found || o.ID == id
	}
	if !found {
		w.Errorf("our administration does not list the deleted namespace %s", id)
	}
}
