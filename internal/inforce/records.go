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
	// ErrDisabled says that the resource is switched off for the entity.
	ErrDisabled = errors.New("limiter: disabled")
	// ErrNoLimits says that neither the call nor any level of the stored configuration has limits.
	ErrNoLimits = errors.New("limiter: no limits configured")
)

// Own are limits that a request brings. They are not changed any more.
type Own struct {
	Limits []bucket.Limit // as they are stored
	Of     any            // of the caller
}

// inForce returns the limits as they are stored, nil for none.
func (o *Own) inForce() []bucket.Limit {
	if o == nil {
		return nil
	}
	return o.Limits
}

// Config is the configuration in force for one entity and resource.
type Config struct {
	Limits  []bucket.Limit // in order of name; nil: none configured
	Lasts   bool           // configured for this entity and resource: the bucket never expires
	Policy  string         // as stored for the namespace
	Bypass  bool           // it is granted everything, and charged nothing
	Exists  bool           // there is metadata of the entity
	Cascade bool           // what it takes is charged to Parent too
	Parent  string
	Read    int64 // when what decides on the limits was last read, epoch ms; zero if the call gave them
}

// kept is the configuration in force for the last request for a bucket, at whose desk it is kept. It holds from
// one instant until before another, epoch ms, and unless the records were dropped since it was worked out. It is
// not changed any more.
type kept struct {
	own         *Own // the limits that the request brought; nil: none
	cfg         Config
	from, until int64
	forgotten   int64 // how often the records had been dropped when they were taken
}

// cached is one configuration item of the cache; an absent item is cached too.
type cached struct {
	config config.Config
	entity config.Entity
	gone   error // why the namespace of a namespace record is not there to be used
	bad    error // why it cannot be read, an ErrInvalid: it fails the requests that it decides on
	found  bool
	at     int64
}

// The records that decide, most specific limits first.
const (
	recEntity = iota
	recEntityDefault
	recResource
	recSystem
	recMeta
	recNamespace
	records
)

// decodeRecord reads one record of the configuration; nil is none.
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
		r.config.Access = config.AccessOf(it) // also of one that cannot be read
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

// combine applies the precedence: the first level with any limits wins whole. A record
// that cannot be read is an error only where it decides: limits of the entity hold
// whatever the namespace has stored.
func combine(recs [records]cached, own []bucket.Limit) (Config, error) {
	out := Config{Policy: recs[recSystem].config.OnUnavailable, Limits: own}
	switch ns := recs[recNamespace]; {
	case !ns.found:
		return out, namespace.Active(nil)
	case ns.gone != nil:
		return out, ns.gone
	}
	if bad := recs[recMeta].bad; bad != nil { // whom else to charge is not known
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

// cacheKey identifies a record of the namespace; the name distinguishes it from
// others of its kind.
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
