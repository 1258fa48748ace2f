package limiter

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// brought are limits that a request brings, as they were passed and as they are stored. Neither is changed any more.
type brought struct {
	limits []Limit
	stored []bucket.Limit
}

// inForce returns the limits as they are stored, nil for none.
func (b *brought) inForce() []bucket.Limit {
	if b == nil {
		return nil
	}
	return b.stored
}

// resolved is the configuration in force for one entity and resource.
type resolved struct {
	limits  []bucket.Limit // in order of name; nil: none configured
	own     bool           // configured for this entity and resource: the bucket never expires
	policy  Policy         // as stored for the namespace
	bypass  bool           // it is granted everything, and charged nothing
	exists  bool           // there is metadata of the entity
	cascade bool           // what it takes is charged to parent too
	parent  string
	read    int64 // when what decides on the limits was last read, epoch ms; zero if the call gave them
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
		r.bad = fmt.Errorf("%w: stored configuration: %w", ErrInvalid, r.bad)
		return r
	}
	if n := len(r.config.Limits); n > MaxLimits {
		r.bad = fmt.Errorf("%w: stored configuration %q: %d limits, want at most %d", ErrInvalid, item.KeyOf(it).PK, n,
			MaxLimits)
	}
	for _, l := range r.config.Limits {
		if r.bad == nil {
			r.bad = validate.LimitOf[Calendar](l).Check("stored configuration " + item.KeyOf(it).PK)
		}
	}
	return r
}

func (r cached) policy() Policy {
	p, _ := validate.PolicyOf[Policy](r.config.OnUnavailable)
	return p
}

// combine applies the precedence: the first level with any limits wins whole. A record
// that cannot be read is an error only where it decides: limits of the entity hold
// whatever the namespace has stored.
func combine(recs [records]cached, own []bucket.Limit) (resolved, error) {
	out := resolved{policy: recs[recSystem].policy(), limits: own}
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
	out.exists = recs[recMeta].found
	out.parent = recs[recMeta].entity.Parent
	out.cascade = *access.Cascade && out.parent != ""
	if out.bypass = access.Switch == config.Bypassed; access.Switch == config.SwitchedOff {
		return out, ErrDisabled
	}
	if own != nil || out.bypass {
		return out, nil
	}
	for _, i := range [...]int{recEntity, recEntityDefault, recResource, recSystem} {
		out.read = max(out.read, recs[i].at)
		if recs[i].bad != nil {
			return out, recs[i].bad
		}
		if len(recs[i].config.Limits) > 0 {
			out.limits, out.own = recs[recEntity].config.Raised(recs[i].config.Limits, recs[recEntity].at), i == recEntity
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

func keysOf(n decide.Name) [records]cacheKey {
	return [records]cacheKey{
		recEntity:        {recEntity, n},
		recEntityDefault: {recEntityDefault, decide.Name{Entity: n.Entity}},
		recResource:      {recResource, decide.Name{Resource: n.Resource}},
		recSystem:        {rec: recSystem},
		recMeta:          {recMeta, decide.Name{Entity: n.Entity}},
		recNamespace:     {rec: recNamespace},
	}
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
