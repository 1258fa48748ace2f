package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The policy of a namespace, as its system configuration stores it: what a call gets
// that ends unavailable or unknown.
const (
	OnUnavailableAllow = "allow"
	OnUnavailableBlock = "block"
)

// Config is the stored limits of one level. The level follows from which of
// Entity and Resource are set:
//
//	neither   system: for every entity and resource of the namespace
//	Resource  every entity on that resource
//	both      one entity on one resource, or with [layout.DefaultResource] on all
type Config struct {
	Namespace        string
	Entity, Resource string
	// Limits are sorted by name. Capacity and Amount must be whole tokens,
	// Period whole seconds: that is how they are stored.
	Limits []bucket.Limit
	// Raises are the raises of limits, also of inherited ones, by name in the form of package bucket. Only one
	// entity on one resource has them.
	Raises map[string]string
	// Unread are the names of the stored limits where something of them cannot be read, nil where all can.
	// They are in force as an error, and Over keeps them until SetLimits replaces them.
	Unread []string
	// OnUnavailable is allow, block or empty (not decided); system level only.
	OnUnavailable string
	// Access is what the level says besides, and Declared what of it a manifest has declared.
	Access   Access
	Declared Declared
	// AuditRetentionDays is how long audit events are kept; 0: not decided.
	// System level only.
	AuditRetentionDays int64
}

const (
	// AttrOnUnavailable is the attribute of the policy; manifests have it under that name too.
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

// Item returns the configuration as it is stored. Fractions of tokens and
// seconds are a bug of the caller and panic.
func (c Config) Item() item.Item {
	k := c.Key()
	it := layout.NewItem(k)
	it[attrConfigVersion] = item.N(configVersion)
	it.Put(layout.AttrEntityID, c.Entity).Put(layout.AttrResource, c.Resource)
	switch {
	case c.Entity != "":
		it[item.AttrGSI3PK] = item.S(c.Namespace + "/" + layout.EntityConfigPart + c.Resource)
		it[item.AttrGSI3SK] = item.S(c.Entity)
	case c.Resource == "":
		it.Put(AttrOnUnavailable, c.OnUnavailable)
		if c.AuditRetentionDays > 0 {
			it[attrAuditRetention] = item.N(c.AuditRetentionDays)
		}
	}
	c.putLimits(item.Item(it))
	maps.Copy(it, layout.Keyed(c.Access.item()))
	maps.Copy(it, layout.Keyed(c.Declared.item()))
	return layout.WithGSI4(item.Item(it), c.Namespace, k.PK)
}

// Replace stores the configuration in place of the old one, as every client does.
func (c Config) Replace() item.Put { return item.Put{Item: c.Item()} }

// SetLimits replaces all limits, whether they could be read or not.
func (c *Config) SetLimits(limits []bucket.Limit) { c.Limits, c.Unread = limits, nil }

// Names are the names of all limits.
func (c Config) Names() []string {
	names := slices.Clone(c.Unread)
	for _, l := range c.Limits {
		names = append(names, l.Name)
	}
	return names
}

// DecodeConfig reads a configuration of any level. Limits that the arithmetic
// cannot hold, or with parts missing, are errors: limits are in force whole or not
// at all. With the error it returns the level and all else that can be read.
func DecodeConfig(it item.Item) (Config, error) {
	r := item.Reader{It: it}
	c := configKey(&r)
	c.Access, c.Declared = AccessOf(it), DeclaredIn(it)
	if c.Resource == "" { // the system's
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

// configKey reads the level off the key; of a key of something else it returns none.
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

// KeepAudit sets how long the audit events of a namespace are kept and leaves the
// rest of its system configuration as it is.
func KeepAudit(ns string, days int64) item.Update {
	u := inRegistry(ns, item.Update{
		Key: layout.SystemConfigKey(ns),
		Set: []item.Attr{{Name: attrAuditRetention, Value: item.N(days)}},
	})
	u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: attrConfigVersion, Value: item.N(configVersion)})
	return u
}
