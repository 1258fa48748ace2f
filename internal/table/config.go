package table

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// The policy of a namespace, as its system configuration stores it: what a call gets
// that ends unavailable or unknown.
const (
	AttrOnUnavailable = attrOnUnavailable // manifests have it under that name too

	OnUnavailableAllow = "allow"
	OnUnavailableBlock = "block"
)

// Config is the stored limits of one level. The level follows from which of
// Entity and Resource are set:
//
//	neither   system: for every entity and resource of the namespace
//	Resource  every entity on that resource
//	both      one entity on one resource, or with [DefaultResource] on all
type Config struct {
	Namespace        string
	Entity, Resource string
	// Limits are sorted by name. Capacity and Amount must be whole tokens,
	// Period whole seconds: that is how they are stored.
	Limits []bucket.Limit
	// OnUnavailable is allow, block or empty (not decided); system level only.
	OnUnavailable string
	// Access is what the level says besides; only read here, see [Config.Over].
	Access Access
	// AuditRetentionDays is how long audit events are kept; 0: not decided.
	// System level only.
	AuditRetentionDays int64
}

const (
	milliPerSecond = 1000
	configVersion  = 1
)

// Key returns the key of the configuration's item.
func (c Config) Key() item.Key {
	switch {
	case c.Entity != "":
		return EntityConfigKey(c.Namespace, c.Entity, c.Resource)
	case c.Resource != "":
		return ResourceConfigKey(c.Namespace, c.Resource)
	}
	return SystemConfigKey(c.Namespace)
}

// Item returns the configuration as it is stored. Fractions of tokens and
// seconds are a bug of the caller and panic.
func (c Config) Item() item.Item {
	k := c.Key()
	it := newItem(k)
	it[attrConfigVersion] = item.N(configVersion)
	it.put(attrEntityID, c.Entity).put(attrResource, c.Resource)
	switch {
	case c.Entity != "":
		it[item.AttrGSI3PK] = item.S(c.Namespace + "/" + entityConfigPart + c.Resource)
		it[item.AttrGSI3SK] = item.S(c.Entity)
	case c.Resource == "":
		it.put(attrOnUnavailable, c.OnUnavailable)
		if c.AuditRetentionDays > 0 {
			it[attrAuditRetention] = item.N(c.AuditRetentionDays)
		}
	}
	c.putLimits(item.Item(it))
	return gsi4(item.Item(it), c.Namespace, k.PK)
}

// Replace stores the configuration in place of what is there, as every client
// does.
func (c Config) Replace() item.Put { return item.Put{Item: c.Item()} }

// DecodeConfig reads a configuration of any level. Limits that the arithmetic
// cannot hold, or with parts missing, are errors: a configuration is in force
// whole or not at all.
func DecodeConfig(it item.Item) (Config, error) {
	r := reader{it: it}
	c := configKey(&r)
	if c.Resource == "" { // that of the system
		c.AuditRetentionDays = r.int(attrAuditRetention)
		switch c.OnUnavailable = r.str(attrOnUnavailable); c.OnUnavailable {
		case "", OnUnavailableAllow, OnUnavailableBlock:
		default:
			r.fail("attribute %q is %q, want %q or %q",
				attrOnUnavailable, c.OnUnavailable, OnUnavailableAllow, OnUnavailableBlock)
		}
	}
	r.limits(&c)
	c.Access = AccessOf(it)
	if err := r.named("config"); err != nil {
		return Config{}, err
	}
	return c, nil
}

// configKey reads the level off the key.
func configKey(r *reader) Config {
	var c Config
	ns, rest, ok := CutNamespace(item.KeyOf(r.it).PK)
	c.Namespace = ns
	sk := item.KeyOf(r.it).SK
	if entity, isEntity := strings.CutPrefix(rest, "ENTITY#"); isEntity {
		resource, isConfig := strings.CutPrefix(sk, skConfig+"#")
		c.Entity, c.Resource = entity, resource
		ok = ok && isConfig && entity != "" && resource != ""
	} else if resource, isResource := strings.CutPrefix(rest, "RESOURCE#"); isResource {
		c.Resource = resource
		ok = ok && sk == skConfig && resource != ""
	} else {
		ok = ok && rest == "SYSTEM#" && sk == skConfig
	}
	if !ok || ns == "" {
		r.fail("%w", errKey)
	}
	return c
}

// KeepAudit sets how long the audit events of a namespace are kept and leaves the
// rest of its system configuration as it is.
func KeepAudit(ns string, days int64) item.Update {
	u := inRegistry(ns, item.Update{
		Key: SystemConfigKey(ns),
		Set: []item.Attr{{Name: attrAuditRetention, Value: item.N(days)}},
	})
	u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: attrConfigVersion, Value: item.N(configVersion)})
	return u
}
