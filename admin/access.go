package admin

import (
	"context"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/validate"
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
	// AccessEnabled: requests are limited.
	AccessEnabled
	// AccessBypassed: every request is granted and takes nothing, and nothing is counted. A parent
	// that pays too is still charged, unless it is bypassed itself.
	AccessBypassed
)

// String returns "inherited", "disabled", "enabled" or "bypassed".
func (a Access) String() string {
	if a < 0 || int(a) >= len(accesses) {
		return fmt.Sprintf("Access(%d)", int(a))
	}
	return accesses[a]
}

// accesses are the words for Access, which counts like config.Switch.
var accesses = [...]string{"inherited", config.AttrDisabled, "enabled", "bypassed"}

// Cascade says whether requests are also charged to the parent of their entity.
type Cascade int

// What a scope says about charging parents. The scopes are asked as for [Access].
const (
	// CascadeInherited: the next scope decides. If none does, Cascade of the [Entity] does.
	CascadeInherited Cascade = iota
	// CascadeOn: the parent is charged too, if the entity has one.
	CascadeOn
	// CascadeOff: the parent is not charged.
	CascadeOff
)

// String returns "inherited", "on" or "off".
func (c Cascade) String() string {
	if c < 0 || int(c) >= len(cascades) {
		return fmt.Sprintf("Cascade(%d)", int(c))
	}
	return cascades[c].word
}

// cascades are the words for Cascade, and how it is stored.
var cascades = [...]struct {
	word   string
	stored *bool
}{
	CascadeInherited: {"inherited", nil}, CascadeOn: {"on", new(true)}, CascadeOff: {"off", new(false)},
}

// storedAccess returns what a scope says as it is stored.
func storedAccess(a Access, c Cascade) (out config.Access, err error) {
	if a < 0 || int(a) >= len(accesses) {
		return out, validate.Invalid("access", a.String(),
			"AccessInherited, AccessDisabled, AccessEnabled or AccessBypassed")
	}
	if c < 0 || int(c) >= len(cascades) {
		return out, validate.Invalid(layout.AttrCascade, c.String(), "CascadeInherited, CascadeOn or CascadeOff")
	}
	return config.Access{Switch: config.Switch(a), Cascade: cascades[c].stored}, nil
}

// publicAccess returns a stored access as callers have it.
func publicAccess(stored config.Access) (a Access, c Cascade) {
	switch {
	case stored.Cascade == nil:
	case *stored.Cascade:
		c = CascadeOn
	default:
		c = CascadeOff
	}
	return Access(stored.Switch), c
}

// SetAccess disables, enables or bypasses requests at a scope, and records that. The scope must
// name an entity, a resource or both. Limits stay as they are. Go clients follow within
// limiter.Options.ConfigTTL. Python clients look at the bucket, so SetAccess also marks existing
// buckets. A client that has not noticed yet may still create one without the mark: call SetAccess
// again after ConfigTTL to mark those too; it is recorded only once. Python clients before 0.17
// apply the limits even if requests are bypassed. The error is ErrReach if the access is stored,
// but some buckets could not be marked.
func (n *Namespace) SetAccess(ctx context.Context, at Scope, a Access) (Reached, error) {
	to, err := storedAccess(a, CascadeInherited)
	if err != nil {
		return Reached{}, err
	}
	return n.decide(ctx, at, stamped.switched, func(says *config.Access) { says.Switch = to.Switch })
}

// SetCascade stores whether requests at a scope are also charged to the parent, and records that.
// The scope must name an entity, a resource or both. Limits stay as they are. Go clients follow
// within limiter.Options.ConfigTTL. Python clients look at the bucket, so SetCascade also marks
// existing buckets, like SetAccess. The error is ErrReach if the setting is stored, but some
// buckets could not be marked.
func (n *Namespace) SetCascade(ctx context.Context, at Scope, c Cascade) (Reached, error) {
	to, err := storedAccess(AccessInherited, c)
	if err != nil {
		return Reached{}, err
	}
	return n.decide(ctx, at, stamped.adopted, func(says *config.Access) { says.Cascade = to.Cascade })
}

// decide stores the access of a scope as edit changes it, and stamps its buckets.
func (n *Namespace) decide(ctx context.Context, at Scope, p part, edit func(*config.Access)) (Reached, error) {
	err := at.validate()
	if err == nil && at == (Scope{}) {
		err = validate.Invalid("scope", at.String(), "an entity, a resource or both")
	}
	if err != nil {
		return Reached{}, err
	}
	_, _, err = n.store(ctx, at, anything, func(c *config.Config) bool {
		was, to := c.Access, c.Access
		edit(&to)
		c.Decide(to)
		return !was.Equal(to)
	})
	if err != nil {
		return Reached{}, fail(err, "change access of %s", at)
	}
	return n.stampBuckets(ctx, at, p)
}
