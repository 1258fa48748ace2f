package admin

import (
	"context"

	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Resolved is the configuration in force for an entity and resource, and its origin.
type Resolved struct {
	// From is the most specific scope with limits, and its configuration. All limits in force are
	// from there. From.Limits is nil if no scope has any, or if they are an ErrConfig.
	From Config
	// Shadowed are the other scopes with limits, most specific first.
	Shadowed []Config
	// Raises are the raises of these limits that are in force: see [Namespace.Raise].
	Raises []Raise
	// Access is from the first scope that sets it. AccessInherited: none does, and requests are
	// served.
	Access Access
	// Cascade is from the first scope that sets it. CascadeInherited: none does, and the entity
	// itself decides.
	Cascade Cascade
	// OnUnavailable is the policy stored for the namespace. PolicyDefault: none is stored.
	OnUnavailable limiter.Policy
}

// Resolve returns the stored limits that are in force for an entity and resource, and their scope,
// as a limiter without cached configuration would find them. If limits of some scope cannot be
// read, it returns an ErrConfig with the rest.
func (n *Namespace) Resolve(ctx context.Context, entity, resource string) (Resolved, error) {
	if err := checkPair(entity, resource); err != nil {
		return Resolved{}, err
	}
	all, err := n.configs(ctx, entity, resource)
	var out Resolved
	for _, it := range all {
		stored, refused := configIn(it, n.table.now())
		if err == nil {
			err = refused
		}
		if stored.OnUnavailable != limiter.PolicyDefault {
			out.OnUnavailable = stored.OnUnavailable
		}
		out.Raises = append(out.Raises, stored.Raises...) // the most specific scope alone has any
		if out.Access == AccessInherited {
			out.Access = stored.Access
		}
		if out.Cascade == CascadeInherited {
			out.Cascade = stored.Cascade
		}
		switch {
		case len(stored.Limits) == 0 && stored.Err == nil:
		case out.From.Limits == nil && out.From.Err == nil:
			out.From = stored
		default:
			out.Shadowed = append(out.Shadowed, stored)
		}
	}
	return out, fail(err, "resolve limits of %s", Scope{entity, resource})
}

func checkPair(entity, resource string) error {
	if err := validate.Entity("Entity", entity); err != nil {
		return err
	}
	return validate.Resource("Resource", resource)
}
