package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The policy of a namespace in its system configuration: the result of a call that ends unavailable
// or unknown.
const (
	OnUnavailableAllow = "allow"
	OnUnavailableBlock = "block"
)

// Config is the stored configuration of one level. Entity and Resource determine the level:
//
//	neither   system: for every entity and resource of the namespace
//	Resource  every entity on that resource
//	both      one entity on one resource, or with [layout.DefaultResource] on all
type Config struct {
	Namespace        string
	Entity, Resource string
	// Limits are sorted by name. Because of the stored form, Capacity and Amount must be whole
	// tokens, and Period whole seconds.
	Limits []bucket.Limit
	// Raises are the raises of limits, including inherited ones, by limit name, in the form of
	// package bucket. Only the level of one entity on one resource has them.
	Raises map[string]string
	// Unread lists the names of the stored limits if some of them cannot be read, otherwise nil.
	// Such limits cause errors while in force, and Over keeps them until SetLimits replaces them.
	Unread []string
	// OnUnavailable is allow, block or empty (undecided); system level only.
	OnUnavailable string
	// Access is the level's other settings, and Declared the part of Access that a manifest has
	// declared.
	Access   Access
	Declared Declared
	// AuditRetentionDays is how long audit events are kept; 0: undecided.
	// System level only.
	AuditRetentionDays int64
}

const (
	// AttrOnUnavailable is the attribute of the policy; manifests use the same name.
	AttrOnUnavailable = "on_unavailable"

	attrAuditRetention = "audit_retention_days"
	attrConfigVersion  = "config_version"

	milliPerSecond = 1000
	configVersion  = 1
)

// Key returns the key of the configuration's item.
func (c Config) Key() item.Key {
	switch {
	case c.Entity != "":
		return layout.EntityConfigKey(c.Namespace, c.Entity, c.Resource)
	case c.Resource != "":
		return layout.ResourceConfigKey(c.Namespace, c.Resource)
	}
	return layout.SystemConfigKey(c.Namespace)
}

// Item returns the configuration in stored form. Fractions of tokens or seconds are a bug of the
// caller and cause a panic.
func (c Config) Item() item.Item {
	k := c.Key()
	it := k.Item()
	it[attrConfigVersion] = item.N(configVersion)
	layout.PutText(it, layout.AttrEntityID, c.Entity)
	layout.PutText(it, layout.AttrResource, c.Resource)
	switch {
	case c.Entity != "":
		it[item.AttrGSI3PK] = item.S(c.Namespace + "/" + layout.EntityConfigPart + c.Resource)
		it[item.AttrGSI3SK] = item.S(c.Entity)
	case c.Resource == "":
		layout.PutText(it, AttrOnUnavailable, c.OnUnavailable)
		if c.AuditRetentionDays > 0 {
			it[attrAuditRetention] = item.N(c.AuditRetentionDays)
		}
	}
	c.putLimits(it)
	maps.Copy(it, c.Access.item())
	maps.Copy(it, c.Declared.item())
	return layout.WithGSI4(it, c.Namespace, k.PK)
}

// SetLimits replaces all limits, including unreadable ones.
func (c *Config) SetLimits(limits []bucket.Limit) { c.Limits, c.Unread = limits, nil }

// Names returns the names of all limits, including unreadable ones.
func (c Config) Names() []string {
	names := slices.Clone(c.Unread)
	for _, l := range c.Limits {
		names = append(names, l.Name)
	}
	return names
}

// DecodeConfig decodes a configuration of any level. Limits with missing parts, or beyond the range
// of the arithmetic, are errors, because a limit is in force completely or not at all. With an
// error, it returns the level and everything else that can be read.
func DecodeConfig(it item.Item) (Config, error) {
	r := item.Reader{It: it}
	c := configKey(&r)
	c.Access, c.Declared = AccessOf(it), DeclaredIn(it)
	if c.Resource == "" { // the system level
		c.AuditRetentionDays = r.Int(attrAuditRetention)
		switch policy := r.Str(AttrOnUnavailable); policy {
		case "", OnUnavailableAllow, OnUnavailableBlock:
			c.OnUnavailable = policy
		default:
			r.Fail("attribute %q is %q, want %q or %q", AttrOnUnavailable, policy, OnUnavailableAllow, OnUnavailableBlock)
		}
	}
	readLimits(&r, &c)
	c.readRaises(&r)
	if err := r.Named("config"); err != nil {
		c.Limits, c.Unread = nil, append([]string{}, c.Names()...)
		return c, err
	}
	return c, nil
}

// configKey returns the level of a key, or an empty one if the key is not a configuration's.
func configKey(r *item.Reader) Config {
	var c Config
	ns, rest, ok := layout.CutNamespace(item.KeyOf(r.It).PK)
	c.Namespace = ns
	sk := item.KeyOf(r.It).SK
	if entity, isEntity := strings.CutPrefix(rest, "ENTITY#"); isEntity {
		resource, isConfig := strings.CutPrefix(sk, layout.SKConfig+"#")
		c.Entity, c.Resource = entity, resource
		ok = ok && isConfig && entity != "" && resource != ""
	} else if resource, isResource := strings.CutPrefix(rest, "RESOURCE#"); isResource {
		c.Resource = resource
		ok = ok && sk == layout.SKConfig && resource != ""
	} else {
		ok = ok && rest == "SYSTEM#" && sk == layout.SKConfig
	}
	if !ok || ns == "" {
		r.Fail("%w", item.ErrKey)
		return Config{}
	}
	return c
}

// KeepAudit sets how long the audit events of a namespace are kept, and leaves the rest of its
// system configuration unchanged.
func KeepAudit(ns string, days int64) item.Update {
	u := inRegistry(ns, item.Update{
		Key: layout.SystemConfigKey(ns),
		Set: []item.Attr{{Name: attrAuditRetention, Value: item.N(days)}},
	})
	u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: attrConfigVersion, Value: item.N(configVersion)})
	return u
}
