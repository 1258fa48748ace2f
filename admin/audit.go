package admin

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Event is one entry of the audit trail.
type Event struct {
	ID string // sorts by time
	// About is what changed: the entity, or the resource or namespace whose limits
	// did.
	About     Subject
	At        time.Time // in whole seconds
	Action    string    // "limits_set", "limits_deleted", "entity_created", "entity_deleted", ...
	Principal string    // who did it; empty: not known
	Resource  string    // whose limits, for limits of an entity; empty: none
	Details   map[string]any
	Expires   time.Time // when it moves from the table to the archive; zero: never
}

// Subject is what audit events are about: an entity, a resource, or with neither
// the namespace itself.
type Subject struct {
	Entity, Resource string
}

func (s Subject) stored() (string, error) {
	switch {
	case s.Entity != "" && s.Resource != "":
		return "", argument.Invalid("Subject", s.Entity+"/"+s.Resource, "an entity or a resource or neither")
	case s.Entity != "":
		return table.EntitySubject(s.Entity), argument.Entity("Entity", s.Entity)
	case s.Resource != "":
		return table.AuditResourcePrefix + s.Resource, argument.Resource("Resource", s.Resource)
	}
	return table.AuditSystem, nil
}

// Events lists the audit events about a subject, the newest first. With the ID of
// an event in before it goes on after that one, so the ID of the last event seen is
// a cursor; empty: from the newest. Events about an entity that was deleted are
// still there.
func (n *Namespace) Events(ctx context.Context, about Subject, before string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		subject, err := about.stored()
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

func eventOf(a table.Audit, about Subject) Event {
	e := Event{
		ID: a.ID, About: about, At: parseTime(a.At), Action: a.Action, Principal: a.Principal,
		Resource: a.Resource, Details: publicMap(a.Details),
	}
	if a.TTL > 0 {
		e.Expires = time.Unix(a.TTL, 0).UTC()
	}
	return e
}
