package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

// shownAccess is what a scope says of its requests as JSON has it.
type shownAccess struct {
	Entity, Resource, Access, Cascade string
	Buckets                           int
}

const accessLong = `There is a switch for an entity on a resource, one for the entity, and one for the
resource. The first of them that is set decides; if none is, requests are served. Limits
stay as they are. The change is shown first, and has to be confirmed (or --yes).`

func disableCommand(a *app) *cobra.Command {
	return accessCommand(a, &cobra.Command{
		Use: "disable {-e ENTITY | -r RESOURCE | -e ENTITY -r RESOURCE}", Short: "serve no requests, whatever the limits",
		Long: "Serve no requests, whatever the limits.\n\n" + accessLong,
		Example: "  zae-limiter disable -r gpt-4\n" +
			"  zae-limiter enable -e acme -r gpt-4\n" +
			"  zae-limiter enable -r gpt-4 --inherit",
	}, func() admin.Access { return admin.AccessDisabled })
}

func enableCommand(a *app) *cobra.Command {
	inherit := false
	cmd := accessCommand(a, &cobra.Command{
		Use:   "enable {-e ENTITY | -r RESOURCE | -e ENTITY -r RESOURCE} [--inherit]",
		Short: "serve requests by their limits, even where a wider switch says disabled",
		Long:  "Serve requests by their limits, even where a wider switch says disabled.\n\n" + accessLong,
	}, func() admin.Access {
		if inherit {
			return admin.AccessInherited
		}
		return admin.AccessEnabled
	})
	cmd.Flags().BoolVar(&inherit, "inherit", false, "decide nothing here: neither enabled nor disabled")
	return cmd
}

func bypassCommand(a *app) *cobra.Command {
	return accessCommand(a, &cobra.Command{
		Use:   "bypass {-e ENTITY | -r RESOURCE | -e ENTITY -r RESOURCE}",
		Short: "grant every request and take nothing for it, whatever the limits",
		Long: "Grant every request and take nothing for it, whatever the limits. It is not counted as\n" +
			"usage. Python clients before 0.17 go by the limits.\n\n" + accessLong + "\nenable --inherit ends it.",
	}, func() admin.Access { return admin.AccessBypassed })
}

func accessCommand(a *app, cmd *cobra.Command, to func() admin.Access) *cobra.Command {
	return decideCommand(a, cmd, func(c *call, yes bool, at admin.Scope) (answer, error) {
		to := to()
		then := map[admin.Access]string{
			admin.AccessDisabled:  "Its requests are refused within a minute.",
			admin.AccessEnabled:   "Its requests are served by their limits.",
			admin.AccessBypassed:  "Its requests are granted within a minute, and take nothing.",
			admin.AccessInherited: "The next wider switch decides.",
		}
		question := fmt.Sprintf("Change access of %s? %s", at, then[to])
		return c.decide(yes, at, decision{"access", func(was admin.Config) string { return was.Access.String() },
			to.String(), question, shownAccess{Access: to.String()},
			func(c *call) (admin.Reached, error) { return c.ns.SetAccess(c.ctx, at, to) }})
	})
}

func cascadeCommand(a *app) *cobra.Command {
	policies := map[string]admin.Cascade{
		"on": admin.CascadeOn, "off": admin.CascadeOff, "inherit": admin.CascadeInherited,
	}
	var to admin.Cascade
	return decideCommand(a, &cobra.Command{
		Use:   "cascade on|off|inherit {-e ENTITY | -r RESOURCE | -e ENTITY -r RESOURCE}",
		Short: "charge parents too, or not, whatever the entities themselves say",
		Long: "Charge what requests take to the parent of their entity too, or not, whatever the\n" +
			"entity itself says (entity create --charge-parent). There is a policy for an entity on a\n" +
			"resource, one for the entity, and one for the resource. The first of them that is set\n" +
			"decides. The change is shown first, and has to be confirmed (or --yes).",
		Example: "  zae-limiter cascade off -r embeddings",
		Args: func(c *cobra.Command, words []string) (err error) {
			if err = countArguments(c, words); err != nil {
				return err
			}
			ok := false
			if to, ok = policies[words[0]]; !ok {
				return usage(c, "%q: accepted are on, off and inherit", words[0])
			}
			return nil
		},
	}, func(c *call, yes bool, at admin.Scope) (answer, error) {
		question := fmt.Sprintf("Change the cascade policy of %s?", at)
		return c.decide(yes, at, decision{"charges parents",
			func(was admin.Config) string { return "cascade: " + was.Cascade.String() }, "cascade: " + to.String(),
			question, shownAccess{Cascade: to.String()},
			func(c *call) (admin.Reached, error) { return c.ns.SetCascade(c.ctx, at, to) }})
	})
}

// decideCommand makes a command that changes what a scope says besides limits.
func decideCommand(a *app, cmd *cobra.Command, do func(*call, bool, admin.Scope) (answer, error)) *cobra.Command {
	var at admin.Scope
	var yes bool
	cmd.PreRunE = func(c *cobra.Command, _ []string) error {
		if at == (admin.Scope{}) {
			return usage(c, "neither --entity nor --resource is given")
		}
		return nil
	}
	return asks(scopeFlags(a.inNamespace(cmd, func(c *call) (answer, error) { return do(c, yes, at) }), &at), &yes)
}

// decision is what a scope is to say.
type decision struct {
	head         string
	was          func(admin.Config) string
	to, question string
	shown        shownAccess
	set          func(*call) (admin.Reached, error)
}

// decide shows what a scope says and what it is to say, asks, and sets it. One that says so
// already goes to the buckets that do not know it yet, without a question.
func (c *call) decide(yes bool, at admin.Scope, d decision) (answer, error) {
	was, err := c.stored(at)
	if unanswered(err) {
		return answer{}, err
	}
	set := func(c *call) (answer, error) {
		n, err := d.set(c)
		d.shown.Entity, d.shown.Resource, d.shown.Buckets = at.Entity, at.Resource, n.Buckets
		r := rows{head: []string{"entity", "resource", d.head, "buckets"}}
		r.add(anyone(at.Entity), anyone(at.Resource), d.shown.Access+d.shown.Cascade, n.Buckets)
		return answer{value: d.shown, rows: r}, err
	}
	return c.change(yes, d.question, at.String()+" ", []string{d.was(was)}, []string{d.to}, set, set)
}
