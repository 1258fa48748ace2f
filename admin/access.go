package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Access says whether requests are served at all, whatever their limits.
type Access int

// What a scope says about its requests. Three scopes are asked in turn: the entity on the
// resource, the entity, the resource. The first that is not AccessInherited decides. So an
// enabled entity is served on a resource that is disabled for all others.
const (
	// AccessInherited: the next scope decides. If none does, requests are served.
	AccessInherited Access = iota
	// AccessDisabled: every request fails with limiter.ErrDisabled.
	AccessDisabled
	// AccessEnabled: requests go by their limits.
	AccessEnabled
	// AccessBypassed: every request is granted and takes nothing. Only Python clients
	// store it; SetAccess refuses it.
	AccessBypassed
)

// String returns "inherited", "disabled", "enabled" or "bypassed".
func (a Access) String() string {
	if a < 0 || int(a) >= len(accesses) {
		return fmt.Sprintf("Access(%d)", int(a))
	}
	return accesses[a].word
}

// accesses are the words for Access, and how it is stored.
var accesses = [...]struct {
	word   string
	stored config.Switch
}{
	AccessInherited: {"inherited", config.Undecided}, AccessDisabled: {config.AttrDisabled, config.SwitchedOff},
	AccessEnabled: {"enabled", config.SwitchedOn}, AccessBypassed: {"bypassed", config.Bypassed},
}

// Access returns what is stored at a scope. It is AccessInherited if nothing is stored, and
// always for the namespace, which cannot be disabled. It works where the limits of the scope
// cannot be read.
func (n *Namespace) Access(ctx context.Context, at Scope) (Access, error) {
	if err := at.validate(); err != nil || at == (Scope{}) {
		return AccessInherited, err
	}
	items, err := n.calls.read(ctx, n.config(at).Key())
	if err != nil {
		return AccessInherited, fail(err, "read access of %s", at)
	}
	return accessIn(items[0]), nil
}

// accessIn returns what the item of a configuration says.
func accessIn(it item.Item) Access {
	for a, is := range accesses {
		if is.stored == config.AccessOf(it).Switch {
			return Access(a)
		}
	}
	panic("bug: access without a word")
}

// SetAccess disables or enables requests at a scope, and records that. The scope must name an
// entity, a resource or both. Limits stay as they are. Go clients obey within
// limiter.Options.ConfigTTL. Python clients look at the bucket, so SetAccess also marks the
// buckets that exist. A client that does not know yet may still create one without the mark:
// call SetAccess again after ConfigTTL to mark those too; it is recorded only once. The error
// is ErrReach if the access is stored, but some buckets could not be marked.
func (n *Namespace) SetAccess(ctx context.Context, at Scope, a Access) (Reached, error) {
	err := at.validate()
	switch {
	case err != nil:
	case at == (Scope{}):
		err = argument.Invalid("scope", at.String(), "an entity, a resource or both")
	case a != AccessInherited && a != AccessDisabled && a != AccessEnabled:
		err = argument.Invalid("access", a.String(), "AccessInherited, AccessDisabled or AccessEnabled")
	}
	if err != nil {
		return Reached{}, err
	}
	s, err := n.commit(ctx, at, func(s stored) ([]item.Write, error) {
		c := n.config(at)
		w := c.SwitchTo(accesses[a].stored, s.item, conditionOn(s.item))
		if w == nil {
			return nil, nil
		}
		_, gone := w.(item.Delete)
		subject, resource := at.subject()
		e := event{subject, ledger.ActionLimitsSet, resource, config.SwitchSet(accesses[a].stored)}
		out := append([]item.Write{config.Noticed(w, s.item)}, n.registers(s.item != nil, c, !gone)...)
		return append(out, n.record(ctx, s.system, e)), nil
	})
	if err != nil {
		return Reached{}, fail(err, "change access of %s", at)
	}
	if a == AccessInherited {
		n.tidy(ctx, at, s, n.config(at))
	}
	return n.eachBucket(ctx, at, "tell", n.tellAccess)
}

// tellAccess stamps the shards of a bucket. It ends when all that there are have taken it and
// the configuration is what it was before. If somebody changes either at the same time, the
// next read shows it.
func (n *Namespace) tellAccess(ctx context.Context, of Scope) (told bool, err error) {
	for try := range reachAttempts {
		was, err := n.accessOf(ctx, of)
		if err != nil {
			return told, err
		}
		shards, err := n.shards(ctx, of.Entity, of.Resource)
		if err != nil {
			return told, err
		}
		done := true
		for _, b := range shards {
			_, err := n.calls.write(ctx, config.Stamp(n.id, of.Entity, of.Resource, b.State.Shard, was))
			if err != nil && !isRefused(err) {
				return told, err
			}
			done = done && err == nil // else the shard is gone, as the next read finds
			told = true
		}
		if now, err := n.accessOf(ctx, of); err != nil || done && now == was {
			return told, err
		}
		pause(ctx, try)
	}
	return told, ErrBusy
}

// accessOf returns what is in force for an entity and resource.
func (n *Namespace) accessOf(ctx context.Context, of Scope) (config.Switch, error) {
	var keys []item.Key
	for _, s := range []Scope{of, {Entity: of.Entity}, {Resource: of.Resource}} {
		keys = append(keys, n.config(s).Key())
	}
	items, err := n.calls.read(ctx, slices.Compact(keys)...)
	if err != nil {
		return config.Undecided, err
	}
	var levels []config.Access
	for _, it := range items {
		levels = append(levels, config.AccessOf(it))
	}
	return config.Combined(levels...).Switch, nil
}
