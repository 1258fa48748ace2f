package inforce

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

var (
	// ErrDisabled means that the resource is disabled for the entity.
	ErrDisabled = errors.New("limiter: disabled")
	// ErrNoLimits means that neither the request nor any level of the stored configuration has
	// limits.
	ErrNoLimits = errors.New("limiter: no limits configured")
)

// Own is the limits of a request. It is immutable.
type Own struct {
	Limits []bucket.Limit // as they are stored
	Of     any            // for the caller's use
}

// Config is the configuration in force for one entity and resource.
type Config struct {
	Limits  []bucket.Limit // in order of name; nil: none configured
	Lasts   bool           // configured for this entity and resource: the bucket never expires
	Policy  string         // the policy stored for the namespace
	Bypass  bool           // everything is granted, and nothing is charged
	Exists  bool           // the entity's metadata exist
	Cascade bool           // costs are charged to Parent too
	Parent  string
	Read    int64 // when the limits were last read, epoch ms; zero if the request brought them
}

// kept is the configuration in force for the last request for a bucket, stored at the bucket's
// desk. It is valid from one instant until before another (epoch ms), unless the records were
// dropped after it was resolved. It is immutable.
type kept struct {
	own         *Own // the limits of the request; nil: none
	cfg         Config
	from, until int64
	forgotten   int64 // how often the records had been dropped when they were read
}

// cached is one configuration item of the cache; an absent item is cached too.
type cached struct {
	config config.Config
	entity config.Entity
	gone   error // why the namespace of a namespace record cannot be used
	bad    error // why the record cannot be read, an ErrInvalid: requests that need it fail
	found  bool
	at     int64
}

// The records of a resolution, the most specific limits first.
const (
	recEntity = iota
	recEntityDefault
	recResource
	recSystem
	recMeta
	recNamespace
	records
)

// decodeRecord decodes one record of the configuration; nil means absent.
func decodeRecord(it item.Item, now int64) cached {
	r := cached{found: it != nil, at: now}
	switch {
	case it == nil:
	case config.IsEntity(it):
		r.entity, r.bad = config.DecodeEntity(it)
	case config.IsNamespace(it):
		r.gone = namespace.Active(it)
	default:
		r.config, r.bad = config.DecodeConfig(it)
		r.config.Access = config.AccessOf(it) // even if the record cannot be read
	}
	if r.bad != nil {
		r.bad = fmt.Errorf("%w: stored configuration: %w", validate.ErrInvalid, r.bad)
		return r
	}
	if n := len(r.config.Limits); n > bucket.MaxLimits {
		r.bad = fmt.Errorf("%w: stored configuration %q: %d limits, want at most %d", validate.ErrInvalid,
			item.KeyOf(it).PK, n, bucket.MaxLimits)
	}
	for _, l := range r.config.Limits {
		if r.bad == nil {
			r.bad = validate.LimitOf[string](l).Check("stored configuration " + item.KeyOf(it).PK)
		}
	}
	return r
}

// combine applies the precedence: the first level with any limits replaces all later ones. A record
// that cannot be read is an error only if it is needed: limits of the entity apply whatever the
// namespace has stored.
func combine(recs [records]cached, own []bucket.Limit) (Config, error) {
	out := Config{Policy: recs[recSystem].config.OnUnavailable, Limits: own}
	switch ns := recs[recNamespace]; {
	case !ns.found:
		return out, namespace.Active(nil)
	case ns.gone != nil:
		return out, ns.gone
	}
	if bad := recs[recMeta].bad; bad != nil { // the parent to charge is unknown
		return out, bad
	}
	access := config.Combined(recs[recEntity].config.Access, recs[recEntityDefault].config.Access,
		recs[recResource].config.Access, config.Access{Cascade: &recs[recMeta].entity.Cascade})
	out.Exists = recs[recMeta].found
	out.Parent = recs[recMeta].entity.Parent
	out.Cascade = *access.Cascade && out.Parent != ""
	if out.Bypass = access.Switch == config.Bypassed; access.Switch == config.SwitchedOff {
		return out, ErrDisabled
	}
	if own != nil || out.Bypass {
		return out, nil
	}
	for _, i := range [...]int{recEntity, recEntityDefault, recResource, recSystem} {
		out.Read = max(out.Read, recs[i].at)
		if recs[i].bad != nil {
			return out, recs[i].bad
		}
		if len(recs[i].config.Limits) > 0 {
			out.Limits, out.Lasts = recs[recEntity].config.Raised(recs[i].config.Limits, recs[recEntity].at), i == recEntity
			return out, nil
		}
	}
	return out, errNoLimits
}

var errNoLimits = fmt.Errorf("%w: want Request.Limits, or limits stored for the entity, the resource or the namespace",
	ErrNoLimits)

// cacheKey identifies a record of the namespace. The name distinguishes records of one kind.
type cacheKey struct {
	rec  int
	name decide.Name
}

// item returns the key under which the record is stored.
func (k cacheKey) item(namespace string) item.Key {
	switch k.rec {
	case recEntity:
		return layout.EntityConfigKey(namespace, k.name.Entity, k.name.Resource)
	case recEntityDefault:
		return layout.EntityConfigKey(namespace, k.name.Entity, layout.DefaultResource)
	case recResource:
		return layout.ResourceConfigKey(namespace, k.name.Resource)
	case recSystem:
		return layout.SystemConfigKey(namespace)
	case recMeta:
		return layout.EntityKey(namespace, k.name.Entity)
	}
	return layout.NamespaceIDKey(namespace)
}
