package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// scopeFlags adds -e and -r for the scope of limits.
func scopeFlags(cmd *cobra.Command, at *admin.Scope) *cobra.Command {
	return named(cmd, at, "entity (default: everybody)", "resource (default: everything)")
}

// named adds -e and -r with the given help texts.
func named(cmd *cobra.Command, at *admin.Scope, entity, resource string) *cobra.Command {
	cmd.Flags().StringVarP(&at.Entity, "entity", "e", "", entity)
	cmd.Flags().StringVarP(&at.Resource, "resource", "r", "", resource)
	return cmd
}

// target is the scope of a command with the flag --everybody, which confirms that no scope is
// named.
type target struct {
	admin.Scope
	everybody bool
}

// flags adds the flags of the scope. They are checked after the other arguments. With must, the
// command needs a scope or --everybody.
func (t *target) flags(must bool, cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&t.everybody, "everybody", false, "everybody's default on everything, if no scope is named")
	others := cmd.PreRunE
	cmd.PreRunE = func(c *cobra.Command, args []string) error {
		if others != nil {
			if err := others(c, args); err != nil {
				return err
			}
		}
		if t.everybody && t.Scope != (admin.Scope{}) {
			return usage(c, "--everybody is for everybody, and %s is named", t.Scope)
		}
		if must && t.Scope == (admin.Scope{}) && !t.everybody {
			return usage(c, "neither --entity nor --resource is given: --everybody changes everybody's default")
		}
		return nil
	}
	return scopeFlags(cmd, &t.Scope)
}

func limitsCommand(a *app) *cobra.Command {
	return group("limits", "stored limits", limitsSet(a), limitsGet(a), limitsList(a), limitsResolve(a), limitsDelete(a),
		limitsReach(a))
}

func limitsGet(a *app) *cobra.Command {
	var at target
	return at.flags(false, a.inNamespace(&cobra.Command{
		Use: "get [-e ENTITY] [-r RESOURCE]", Short: "show the configuration of one scope",
	}, func(c *call) (answer, error) {
		config, err := c.ns.Config(c.ctx, at.Scope)
		return configsAnswer(config), err
	}))
}

func limitsList(a *app) *cobra.Command {
	var of admin.Scope
	return scopeFlags(a.inNamespace(&cobra.Command{
		Use: "list [-e ENTITY] [-r RESOURCE]", Short: "list configurations: of all scopes, or for an entity or a resource",
	}, func(c *call) (answer, error) {
		configs := []admin.Config{}
		for config, err := range c.ns.Configs(c.ctx, of) {
			if err != nil && config.Err == nil {
				return answer{}, err
			}
			configs = append(configs, config)
		}
		return configsAnswer(configs...), nil
	}), &of)
}

func limitsResolve(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "resolve ENTITY RESOURCE", Short: "show the limits in force, and which scope they come from",
	}, func(c *call) (answer, error) {
		found, err := c.ns.Resolve(c.ctx, c.args[0], c.args[1])
		if err == nil && len(found.From.Limits) == 0 {
			err = fmt.Errorf("%w: no scope has limits for %q on %q", limiter.ErrNoLimits, c.args[0], c.args[1])
		}
		return resolvedAnswer(found), err
	})
}

func limitsReach(a *app) *cobra.Command {
	var at target
	return at.flags(false, a.inNamespace(&cobra.Command{
		Use: "reach [-e ENTITY] [-r RESOURCE]", Short: "bring the stored limits to buckets that do not have them yet",
	}, func(c *call) (answer, error) {
		n, err := c.ns.Reach(c.ctx, at.Scope)
		return single(n, []string{"buckets", "changed"}, n.Buckets, n.Changed), err
	}))
}

// parseLimits reads limits in the syntax that manifest.Syntax describes.
func parseLimits(c *cobra.Command, texts []string) ([]limiter.Limit, error) {
	var out []limiter.Limit
	for _, text := range texts {
		l, err := manifest.ParseLimit(text)
		if err != nil {
			return nil, usage(c, "limit %q: %v", text, err)
		}
		if slices.ContainsFunc(out, func(x limiter.Limit) bool { return x.Name == l.Name }) {
			return nil, usage(c, "limit %q: each name once", text)
		}
		out = append(out, l)
	}
	return out, nil
}
