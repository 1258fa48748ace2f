//go:build interop

package interop

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/archive"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// collect returns a whole listing.
func collect[T any](w *world, all func(func(T, error) bool)) (out []T) {
	w.Helper()
	for one, err := range all {
		check.Must(w, err)
		out = append(out, one)
	}
	return out
}

// Entities created by either client are read, listed and deleted by the other, with everything that
// both stored for them.
func TestEntitiesAreShared(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p, n, ctx := w.python(), w.manage(), w.Context()
		metadata := kv{"tier": "gold", "note": "ä"}
		p.call(nil, "create_entity", kv{"entity_id": "org", "name": "Org"})
		p.call(nil, "create_entity", kv{"entity_id": "theirs", "parent_id": "org", "metadata": metadata})
		_, err := n.CreateEntity(ctx, admin.Entity{ID: "ours", Name: "Ours", Parent: "org", Metadata: metadata})
		check.Must(w, err)

		got, err := n.Entity(ctx, "theirs")
		if err != nil || got.Parent != "org" || got.Cascade || !reflect.DeepEqual(got.Metadata, metadata) ||
			got.CreatedAt.IsZero() {
			w.Errorf("we read %+v, %v", got, err)
		}
		var read struct {
			Name     string
			Parent   string `json:"parent_id"`
			Cascade  bool
			Metadata kv
			Created  string `json:"created_at"`
		}
		p.call(&read, "get_entity", kv{"entity_id": "ours"})
		if read.Name != "Ours" || read.Parent != "org" || read.Cascade || !reflect.DeepEqual(read.Metadata, metadata) ||
			read.Created == "" {
			w.Errorf("Python reads %+v", read)
		}
		var children []struct{ ID string }
		p.call(&children, "get_children", kv{"parent_id": "org"})
		check.Equal(w, len(children), 2, "Python lists the children %v", children)
		ours := collect(w, n.Children(ctx, "org"))
		check.Equal(w, len(ours), 2, "we list the children %v", ours)

		l := w.open()
		p.call(nil, "set_system_defaults", kv{"limits": pyLimits(still("rpm", 100))})
		for _, entity := range []string{"ours", "theirs"} {
			w.take(l, entity, "api", limiter.Costs{"rpm": 1})
			p.take(entity, "api", limiter.Costs{"rpm": 1})
			p.call(nil, "set_limits", kv{"entity_id": entity, "resource": "x", "limits": pyLimits(still("rpm", 1))})
		}
		p.call(nil, "delete_entity", kv{"entity_id": "ours"})
		check.Must(w, check.Err(n.DeleteEntity(ctx, "theirs")))
		for _, entity := range []string{"ours", "theirs"} {
			if _, ok := w.shard(entity, "api", 0); ok {
				w.Errorf("the bucket of %s is still there", entity)
			}
			if left := collect(w, n.Configs(ctx, admin.Scope{Entity: entity})); len(left) > 0 {
				w.Errorf("limits of %s are still there: %v", entity, left)
			}
		}
	})
}

// Both clients read the same registries, whoever set and deleted limits.
func TestRegistriesAreShared(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p, n, ctx := w.python(), w.manage(), w.Context()
		limit := still("rpm", 10)
		for _, entity := range []string{"a", "b", "gone"} {
			p.call(nil, "set_limits", kv{"entity_id": entity, "resource": "their-api", "limits": pyLimits(limit)})
			check.Must(w, n.SetLimits(ctx, admin.Scope{Entity: entity, Resource: "our-api"}, limit))
		}
		p.call(nil, "set_resource_defaults", kv{"resource": "their-api", "limits": pyLimits(limit)})
		check.Must(w, n.SetLimits(ctx, admin.Scope{Resource: "our-api"}, limit))
		check.Must(w, n.SetLimits(ctx, admin.Scope{Resource: "gone"}, limit))
		// One client sets, the other deletes.
		p.call(nil, "delete_limits", kv{"entity_id": "gone", "resource": "our-api"})
		check.Must(w, n.DeleteLimits(ctx, admin.Scope{Entity: "gone", Resource: "their-api"}))
		p.call(nil, "delete_resource_defaults", kv{"resource": "gone"})

		want := []string{"our-api", "their-api"}
		var got []string
		p.call(&got, "list_resources_with_defaults", kv{})
		var ours, counted []string
		for _, c := range collect(w, n.Configs(ctx, admin.Scope{})) {
			if c.Entity == "" {
				ours = append(ours, c.Resource)
			} else {
				counted = append(counted, c.Resource+" "+c.Entity)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) || !slices.Equal(ours, want) {
			w.Errorf("resources with limits: Python %v, ours %v, want %v", got, ours, want)
		}
		p.call(&got, "list_resources_with_entity_configs", kv{})
		if slices.Sort(got); !slices.Equal(got, want) ||
			!slices.Equal(counted, []string{"our-api a", "our-api b", "their-api a", "their-api b"}) {
			w.Errorf("resources with limits of entities: Python %v, ours %v, want %v, 2 each", got, counted, want)
		}
		for _, resource := range want {
			var page []any
			p.call(&page, "list_entities_with_custom_limits", kv{"resource": resource})
			var theirs []string
			recode(w, page[0], &theirs)
			slices.Sort(theirs)
			check.Slices(w, theirs, []string{"a", "b"}, "entities with limits for %s: Python, want a and b", resource)
		}
	})
}

// The clients share one audit trail: each reads the other's events.
func TestAuditTrailIsShared(t *testing.T) {
	onBothEngines(t, func(w *world) {
		w.open()
		p, n, ctx := w.python(), w.manage(), w.Context()
		_, err := n.CreateEntity(ctx, admin.Entity{ID: "acme", Name: "Acme", Metadata: kv{"tier": "gold"}})
		check.Must(w, err)
		p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api",
			"limits": pyLimits(limiter.PerMinute("rpm", 10))})
		check.Must(w, n.SetLimits(ctx, admin.Scope{Entity: "acme", Resource: "api"}, limiter.PerMinute("rpm", 10)))
		p.call(nil, "delete_limits", kv{"entity_id": "acme", "resource": "api"})
		check.Must(w, check.Err(n.DeleteEntity(ctx, "acme")))

		var theirs []auditEvent
		p.call(&theirs, "get_audit_events", kv{"entity_id": "acme"})
		ours := collect(w, n.Events(ctx, admin.Scope{Entity: "acme"}, ""))
		want := []struct{ action, principal string }{ // newest first
			{"entity_deleted", "ops"}, {"limits_deleted", callerARN}, {"limits_set", "ops"},
			{"limits_set", callerARN}, {"entity_created", "ops"},
		}
		if len(theirs) != len(want) || len(ours) != len(want) {
			w.Fatalf("Python reads %d events, we read %d, want %d: %+v", len(theirs), len(ours), len(want), theirs)
		}
		for i, e := range want {
			if theirs[i].Action != e.action || theirs[i].Principal != e.principal {
				w.Errorf("Python reads %+v, want %+v", theirs[i], e)
			}
			if ours[i].ID != theirs[i].ID || ours[i].Action != e.action || ours[i].Principal != e.principal {
				w.Errorf("we read %+v, want %+v", ours[i], e)
			}
		}
		if a, b := theirs[2].Details, theirs[3].Details; !reflect.DeepEqual(a, b) {
			w.Errorf("limits set by us are recorded as %v, by Python as %v", a, b)
		}
	})
}

// auditEvent is an audit event in the form of Python's queries. The archive has the same fields,
// and the namespace.
type auditEvent struct {
	ID        string `json:"event_id"`
	Namespace string `json:"namespace_id,omitempty"`
	Timestamp string `json:"timestamp"`
	Action    string `json:"action"`
	Entity    string `json:"entity_id"`
	Principal string `json:"principal"`
	Resource  string `json:"resource"`
	Details   kv     `json:"details"`
}

// Our archiver archives every kind of Python's audit events once when it expires, with everything
// that Python's own query returns.
func TestAuditEventsOfPythonAreArchived(t *testing.T) {
	deployed(t, func(d *deployment) {
		d.open()
		p := d.world.python()
		limits := pyLimits(limiter.PerMinute("rpm", 10))
		p.call(nil, "create_entity", kv{"entity_id": "org", "metadata": kv{"tier": "gold"}})
		p.call(nil, "create_entity", kv{"entity_id": "acme", "name": "Acme", "parent_id": "org", "cascade": true,
			"principal": "ops@example.com"})
		p.call(nil, "set_limits", kv{"entity_id": "acme", "limits": limits})
		p.call(nil, "delete_limits", kv{"entity_id": "acme"})
		p.call(nil, "set_resource_defaults", kv{"resource": "gpt-4", "limits": limits})
		p.call(nil, "delete_resource_defaults", kv{"resource": "gpt-4"})
		p.call(nil, "set_system_defaults", kv{"limits": limits, "on_unavailable": "allow"})
		p.call(nil, "delete_system_defaults", kv{})
		p.call(nil, "delete_entity", kv{"entity_id": "acme"})
		want := map[string]auditEvent{}
		for _, subject := range []string{"org", "acme", "$RESOURCE:gpt-4", "$SYSTEM"} {
			var events []auditEvent
			p.call(&events, "get_audit_events", kv{"entity_id": subject})
			for _, e := range events {
				e.Namespace = p.Namespace
				want[e.ID] = e
			}
		}
		check.MustEqual(d, len(want), 9, "events that Python has: %+v", want)
		check.Must(d, check.Err(d.stack.Sweeper.Sweep(d.Context(), time.Now().Add(100*24*time.Hour).UnixMilli())))
		d.rest()
		if got := d.archived(); !reflect.DeepEqual(got, want) {
			d.Errorf("archived\n%+v\nwant\n%+v", got, want)
		}
	})
}

// archived reads the archive, by event id.
func (d *deployment) archived() map[string]auditEvent {
	d.Helper()
	keys, err := d.stack.S3.Keys(d.Context())
	check.Must(d, err)
	out := map[string]auditEvent{}
	for _, key := range keys {
		text, err := d.stack.S3.Text(d.Context(), key)
		check.Must(d, err)
		var e auditEvent
		if err := json.Unmarshal([]byte(text), &e); err != nil || !strings.HasPrefix(key, archive.PrefixAudit) ||
			out[e.ID].ID != "" {
			d.Fatalf("object %q: %v, event %+v: want an audit event that is archived once", key, err, e)
		}
		out[e.ID] = e
	}
	return out
}
