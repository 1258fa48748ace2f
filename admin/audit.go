package admin

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Event is one entry of the audit trail.
type Event struct {
	ID        string    // sorts by time
	At        time.Time // in whole seconds
	Action    string    // "limits_set", "limits_deleted", "entity_created", "entity_deleted", ...
	Principal string    // made the change; empty: not known
	// Scope is what changed: an entity, its limits or bucket on one resource ("_default_":
	// its limits on all others), the limits of a resource, or the namespace.
	Scope
	Details map[string]any
	Expires time.Time // when it moves from the table to the archive; zero: never
}

// trail returns under what subject the events about an entity, a resource or the
// namespace are stored.
func (s Scope) trail() (string, error) {
	if s.Entity != "" && s.Resource != "" {
		return "", validate.Invalid("about", s.String(), "an entity or a resource or neither")
	}
	subject, _ := s.subject()
	return subject, s.validate()
}

// Events lists the audit events about an entity, about a resource, or with neither about the
// namespace, newest first. With the ID of an event in before it continues after that one, so the ID
// of the last event seen is a cursor; empty: from the newest. Events about an entity that was
// deleted are still there. An entity together with a resource is ErrInvalid: events about the
// entity name the resource.
func (n *Namespace) Events(ctx context.Context, about Scope, before string) iter.Seq2[Event, error] {
	subject, err := about.trail()
	if err == nil && strings.Trim(before, crockford) != "" {
		err = validate.Invalid("before", before, "the ID of an event")
	}
	if err != nil {
		return failing[Event](err)
	}
	return decoded(n.calls.query(ctx, ledger.Audits(n.id, subject, before)), func(it item.Item) (Event, bool, error) {
		a, err := ledger.DecodeAudit(it)
		return eventOf(a, about), a.ID != before, err
	}, "list events about %q", subject)
}

// AllEvents lists the audit events about everything in the namespace from one instant up to
// another, which is excluded, newest first; a zero instant is no bound. It reads the keys of all
// events in the table before it yields the first one. An event of the last second may be missing:
// the index of the keys lags behind.
func (n *Namespace) AllEvents(ctx context.Context, from, to time.Time) iter.Seq2[Event, error] {
	list := func(yield func(Event) bool) error {
		var keys []item.Key
		for it, err := range n.calls.query(ctx, ledger.AllAudits(n.id)) {
			if err != nil {
				return err
			}
			k := item.KeyOf(it)
			if id := ledger.AuditID(k); id >= idAt(from) && (to.IsZero() || id < idAt(to)) {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, func(a, b item.Key) int { return strings.Compare(ledger.AuditID(b), ledger.AuditID(a)) })
		for some := range slices.Chunk(keys, item.MaxReadKeys) {
			items, err := n.calls.found(ctx, some...) // some have expired
			if err != nil {
				return err
			}
			for _, it := range items {
				a, err := ledger.DecodeAudit(it)
				if err != nil || !yield(eventOf(a, trailOf(a.Subject))) {
					return err
				}
			}
		}
		return nil
	}
	return sequence(func(yield func(Event) bool) error {
		return fail(list(yield), "list events of namespace %q", n.name)
	})
}

// trailOf is what the events under a subject are about.
func trailOf(subject string) Scope {
	if subject == layout.AuditSystem {
		return Scope{}
	} else if entity, ok := layout.SubjectEntity(subject); ok {
		return Scope{Entity: entity}
	}
	return Scope{Resource: strings.TrimPrefix(subject, layout.AuditResourcePrefix)}
}

func eventOf(a ledger.Audit, about Scope) Event {
	e := Event{
		ID: a.ID, At: parseTime(a.At), Action: a.Action, Principal: a.Principal,
		Scope: Scope{about.Entity, cmp.Or(a.Resource, about.Resource)}, Details: publicMap(a.Details),
	}
	if a.TTL > 0 {
		e.Expires = time.Unix(a.TTL, 0).UTC()
	}
	return e
}
