package limiter

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// decodeRecord reads one record of the configuration; nil is none.
func decodeRecord(it item.Item, now int64) (record, error) {
	r := record{found: it != nil, at: now}
	if it == nil {
		return r, nil
	}
	var err error
	switch {
	case table.IsEntity(it):
		r.entity, err = table.DecodeEntity(it)
	case table.IsNamespace(it):
		r.gone = namespace.Active(it)
	default:
		r.config, err = table.DecodeConfig(it)
	}
	if err != nil {
		return r, fmt.Errorf("%w: stored configuration: %w", ErrInvalid, err)
	}
	if n := len(r.config.Limits); n > MaxLimits {
		return r, fmt.Errorf("%w: stored configuration %q: %d limits, want at most %d", ErrInvalid, item.KeyOf(it).PK, n,
			MaxLimits)
	}
	for _, l := range r.config.Limits {
		if err := public(l).validate("stored configuration " + item.KeyOf(it).PK); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r record) policy() Policy {
	p, _ := argument.PolicyOf[Policy](r.config.OnUnavailable)
	return p
}

// combine applies the precedence: the first level with any limits wins whole.
func combine(recs [records]record, own []bucket.Limit) (resolved, error) {
	out := resolved{policy: recs[recSystem].policy(), limits: own}
	switch ns := recs[recNamespace]; {
	case !ns.found:
		return out, namespace.Active(nil)
	case ns.gone != nil:
		return out, ns.gone
	}
	out.cascade = recs[recMeta].entity.Cascade && recs[recMeta].entity.Parent != ""
	out.exists = recs[recMeta].found
	out.parent = recs[recMeta].entity.Parent
	if own != nil {
		return out, nil
	}
	for _, i := range [...]int{recEntity, recEntityDefault, recResource, recSystem} {
		out.read = max(out.read, recs[i].at)
		if len(recs[i].config.Limits) > 0 {
			out.limits, out.own = recs[i].config.Limits, i == recEntity
			return out, nil
		}
	}
	return out, errNoLimits
}

var errNoLimits = fmt.Errorf("%w: want Request.Limits, or limits stored for the entity, the resource or the namespace",
	ErrNoLimits)
