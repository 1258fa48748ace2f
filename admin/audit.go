package admin

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Event is one entry of the audit trail.
type Event struct {
	ID        string    // sorts by time
	At        time.Time // in whole seconds
	Action    string    // "limits_set", "limits_deleted", "entity_created", "entity_deleted", ...
	Principal string    // who did it; empty: not known
	// Scope is what changed: an entity, its limits or bucket on one resource ("_default_":
	// its limits on all others), the limits of a resource, or the namespace.
	Scope
	Details map[string]any
	Expires time.Time // when it moves from the table to the archive; zero: never
}

// trail returns under what subject the events about an entity, a resource or the
// namespace are stored.
func (s Scope) trail() (string, error) {
	switch {
	case s.Entity != "" && s.Resource != "":
		return "", argument.Invalid("about", s.String(), "an entity or a resource or neither")
	case s.Entity != "":
		return table.EntitySubject(s.Entity), argument.Entity("Entity", s.Entity)
	case s.Resource != "":
		return table.AuditResourcePrefix + s.Resource, argument.Resource("Resource", s.Resource)
	}
	return table.AuditSystem, nil
}

// Events lists the audit events about an entity, about a resource, or with neither
// about the namespace, the newest first. With the ID of an event in before it goes on
// after that one, so the ID of the last event seen is a cursor; empty: from the newest.
// Events about an entity that was deleted are still there. The error is ErrInvalid for an
// entity and a resource: events about the entity name the resource.
func (n *Namespace) Events(ctx context.Context, about Scope, before string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		subject, err := about.trail()
		if err == nil && strings.Trim(before, crockford) != "" {
			err = argument.Invalid("before", before, "the ID of an event")
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		for it, err := range n.calls.query(ctx, table.Audits(n.id, subject, before)) {
			var a table.Audit
			if err == nil {
				a, err = table.DecodeAudit(it)
			}
			if err == nil && a.ID == before {
				continue
			}
			if !yield(eventOf(a, about), fail(err, "list events about %q", subject)) || err != nil {
				return
			}
		}
	}
}

func eventOf(a table.Audit, about Scope) Event {
	e := Event{
		ID: a.ID, At: parseTime(a.At), Action: a.Action, Principal: a.Principal,
		Scope: Scope{about.Entity, cmp.Or(a.Resource, about.Resource)}, Details: publicMap(a.Details),
	}
	if a.TTL > 0 {
		e.Expires = time.Unix(a.TTL, 0).UTC()
	}
	return e
}
