package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Scope is the entity and resource that limits are stored for. The most specific scope that has any
// limits is in force, as a whole:
//
//	Scope{Entity: "acme", Resource: "gpt-4"}  one entity on one resource
//	Scope{Entity: "acme"}                     one entity on all other resources
//	Scope{Resource: "gpt-4"}                  all other entities on one resource
//	Scope{}                                   everybody else, on everything
type Scope struct {
	Entity, Resource string
}

// String returns the scope as "acme/gpt-4", with a * for an empty part.
func (s Scope) String() string {
	return cmp.Or(s.Entity, "*") + "/" + cmp.Or(s.Resource, "*")
}

func (s Scope) validate() error {
	if s.Entity != "" {
		if err := validate.Entity("Entity", s.Entity); err != nil {
			return err
		}
	}
	if s.Resource != "" {
		return validate.Resource("Resource", s.Resource)
	}
	return nil
}

// config returns the stored form of a scope without anything in it.
func (n *Namespace) config(at Scope) config.Config {
	c := config.Config{Namespace: n.id, Entity: at.Entity, Resource: at.Resource}
	if at.Entity != "" && at.Resource == "" {
		c.Resource = layout.DefaultResource
	}
	return c
}

// subject returns the entity and the resource that audit events about limits at
// a scope name.
func (s Scope) subject() (subject, resource string) {
	switch {
	case s.Entity != "":
		return layout.EntitySubject(s.Entity), cmp.Or(s.Resource, layout.DefaultResource)
	case s.Resource != "":
		return layout.AuditResourcePrefix + s.Resource, s.Resource
	}
	return layout.AuditSystem, ""
}

// Config is the stored configuration of one scope.
type Config struct {
	Scope
	Limits []limiter.Limit // in order of name; nil: none, or they cannot be read
	Err    error           // why requests that these limits are for are refused, an ErrConfig; nil: they are not
	// Raises are the raises in force, also of inherited limits: see [Namespace.Raise].
	Raises []Raise
	// Access and Cascade are the scope's, see [Namespace.SetAccess] and [Namespace.SetCascade].
	Access  Access
	Cascade Cascade
	// OnUnavailable is the policy for requests that name none, when the table does
	// not answer. Only the system scope has it. PolicyDefault: none is stored.
	OnUnavailable limiter.Policy
	// AuditRetention is how long audit events are kept, in whole days. Only the
	// system scope has it. Zero: nothing is stored.
	AuditRetention time.Duration
}

// configIn returns what the item of a configuration says at an instant. Its error is Err of it.
func configIn(it item.Item, now int64) (Config, error) {
	c, err := config.DecodeConfig(it)
	out := configOf(c, now)
	if err == nil {
		_, err = storedLimits(out.Limits)
	}
	if err != nil {
		out.Err = fmt.Errorf("%w of %s: %w", ErrConfig, out.Scope, err)
	}
	return out, out.Err
}

// configOf returns a configuration as callers have it, but for Err.
func configOf(c config.Config, now int64) Config {
	out := Config{Scope: scopeOf(c), AuditRetention: time.Duration(c.AuditRetentionDays) * day}
	if out.Scope != (Scope{}) { // the namespace says nothing
		out.Access, out.Cascade = publicAccess(c.Access)
	}
	for _, l := range c.Limits {
		out.Limits = append(out.Limits, publicLimit(l))
	}
	for _, limit := range slices.Sorted(maps.Keys(c.Raises)) {
		out.Raises = append(out.Raises, raisesOf(limit, c.Lasting(limit, now))...)
	}
	out.OnUnavailable, _ = validate.PolicyOf[limiter.Policy](c.OnUnavailable)
	return out
}

// publicLimit returns a stored limit as callers have it.
func publicLimit(l bucket.Limit) limiter.Limit {
	return limiter.Limit(validate.LimitOf[limiter.Calendar](l))
}

func scopeOf(c config.Config) Scope {
	s := Scope{Entity: c.Entity, Resource: c.Resource}
	if s.Entity != "" && s.Resource == layout.DefaultResource {
		s.Resource = ""
	}
	return s
}

// storedLimits validates limits and returns them as they are stored, in order of
// name.
func storedLimits(limits []limiter.Limit) ([]bucket.Limit, error) {
	return validate.Limits("limits", limits, func(_ int, l limiter.Limit) (bucket.Limit, error) {
		return validate.Limit[limiter.Calendar](l).Stored(), l.Validate()
	})
}

// Config returns the stored configuration of a scope. The error is ErrNotFound if
// there is none, and ErrConfig together with the parts that can be read.
func (n *Namespace) Config(ctx context.Context, at Scope) (Config, error) {
	if err := at.validate(); err != nil {
		return Config{}, err
	}
	items, err := n.calls.read(ctx, n.config(at).Key())
	if err == nil && items[0] == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Config{}, fail(err, "read limits of %s", at)
	}
	return configIn(items[0], n.table.now())
}

// SetLimits replaces the limits stored at a scope, records that, and brings the new ones to
// existing buckets ([Namespace.Reach]). It replaces each limit completely, even parts that cannot
// be read ([ErrConfig]), such as the schedule of a quota. Limits that are no longer stored leave
// those buckets. Afterwards all clients, Python ones too, work with the new limits. Other
// configuration of the scope stays. There must be at least one limit.
//
// The error is ErrReach if the limits are stored, but not in all buckets.
func (n *Namespace) SetLimits(ctx context.Context, at Scope, limits ...limiter.Limit) error {
	stored, err := storedLimits(limits)
	if err == nil && len(stored) == 0 {
		err = validate.Invalid("limits", validate.Plain("empty"), "at least one; DeleteLimits removes them")
	}
	if err != nil {
		return err
	}
	return n.changeIf(ctx, at, anything, func(c *config.Config) { c.SetLimits(stored) })
}

// ChangeLimits is SetLimits, or without limits DeleteLimits, at the scope of was, but only if the
// stored limits are still was.Limits (none: nothing is stored). Otherwise the error is ErrBusy and
// nothing is changed: if two operators change the same configuration that both have read, one of
// them gets the error.
func (n *Namespace) ChangeLimits(ctx context.Context, was Config, limits ...limiter.Limit) error {
	stored, err := storedLimits(limits)
	if err != nil {
		return err
	}
	before, err := storedLimits(was.Limits)
	if err != nil {
		return err
	}
	unchanged := func(it item.Item) bool {
		now := n.configIn(it, was.Scope)
		return now.Unread == nil && slices.Equal(now.Limits, before)
	}
	return n.changeIf(ctx, was.Scope, unchanged, func(c *config.Config) { c.SetLimits(stored) })
}

// DeleteLimits removes the limits stored at a scope, records that, and updates existing buckets to
// the limits that are in force now. Buckets without any limits in force stay as they are. Other
// configuration of the scope stays. If the scope has no limits, nothing happens. Errors are as for
// SetLimits.
func (n *Namespace) DeleteLimits(ctx context.Context, at Scope) error {
	return n.changeIf(ctx, at, anything, func(c *config.Config) { c.SetLimits(nil) })
}

// Settings are the changes that [Namespace.Configure] makes to a whole namespace. A nil field stays
// as it is.
type Settings struct {
	// OnUnavailable is the policy for requests that name none, when the table does not
	// answer. PolicyDefault removes the stored one.
	OnUnavailable *limiter.Policy
	// AuditRetention is how long audit events are kept from now on: whole days, at most ten years.
	// Zero removes the stored one.
	AuditRetention *time.Duration
}

// Configure changes settings of the namespace, all in one change with one audit event;
// [Namespace.Config] of the system scope shows them. Limits stay. For example
//
//	err := ns.Configure(ctx, admin.Settings{AuditRetention: new(30 * 24 * time.Hour)})
func (n *Namespace) Configure(ctx context.Context, s Settings) error {
	var word string
	var days int64
	if p := s.OnUnavailable; p != nil {
		var err error
		if word, err = policyWord(*p); err != nil {
			return err
		}
	}
	if keep := s.AuditRetention; keep != nil {
		if *keep < 0 || *keep > 3660*day || *keep%day != 0 {
			return validate.Invalid("AuditRetention", *keep, "whole days, at most 3660")
		}
		days = int64(*keep / day)
	}
	_, _, err := n.store(ctx, Scope{}, anything, func(c *config.Config) bool {
		if s.OnUnavailable != nil {
			c.OnUnavailable = word
		}
		if s.AuditRetention != nil {
			c.AuditRetentionDays = days
		}
		return true
	})
	return fail(err, "change settings")
}

func policyWord(p limiter.Policy) (string, error) {
	word, ok := validate.PolicyWord(p)
	if !ok {
		return "", validate.Invalid("OnUnavailable", p.String(), "PolicyDefault, PolicyBlock or PolicyAllow")
	}
	return word, nil
}

// maxCompared is how many attributes one condition compares, so that it stays
// within DynamoDB's bounds on expressions.
const maxCompared = 120

// conditionOn holds while an item is as it was read. Attributes that are new go
// unnoticed, because no condition can find them, and so do changes of attributes
// beyond maxCompared: the version of a configuration covers them, see [config.Noticed].
func conditionOn(it item.Item) item.Cond {
	if it == nil {
		return item.Absent(item.AttrPK)
	}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	attrs := slices.DeleteFunc(slices.Sorted(maps.Keys(it)), item.IsKeyAttr)
	for _, attr := range attrs[:min(len(attrs), maxCompared)] {
		cond = append(cond, item.Compare(attr, item.Eq, it[attr]))
	}
	return item.All(cond...)
}
