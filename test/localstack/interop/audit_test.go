//go:build interop

package interop

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/archive"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

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
