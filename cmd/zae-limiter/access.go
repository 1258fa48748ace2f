package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

// shownAccess is what a scope says of its requests as JSON has it.
type shownAccess struct {
	Entity, Resource, Access string
	Buckets                  int
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

func accessCommand(a *app, cmd *cobra.Command, to func() admin.Access) *cobra.Command {
	var at admin.Scope
	var yes bool
	cmd.Args = args(0, 0)
	cmd.PreRunE = func(c *cobra.Command, _ []string) error {
		if at == (admin.Scope{}) {
			return usage(c, "neither --entity nor --resource is given")
		}
		return nil
	}
	return asks(scopeFlags(a.inNamespace(cmd, func(c *call) (answer, error) {
		return c.setAccess(yes, at, to())
	}), &at), &yes)
}

// setAccess shows what a switch says and what it is to say, asks, and sets it. One that says so
// already goes to the buckets that do not know it yet, without a question.
func (c *call) setAccess(yes bool, at admin.Scope, to admin.Access) (answer, error) {
	was, err := c.ns.Access(c.ctx, at)
	if err != nil {
		return answer{}, err
	}
	set := func(c *call) (answer, error) {
		n, err := c.ns.SetAccess(c.ctx, at, to)
		r := rows{head: []string{"entity", "resource", "access", "buckets"}}
		r.add(anyone(at.Entity), anyone(at.Resource), to, n.Buckets)
		return answer{value: shownAccess{at.Entity, at.Resource, to.String(), n.Buckets}, rows: r}, err
	}
	if was == to {
		return set(c)
	}
	c.leaves(fmt.Sprintf("%s %s", at, was))
	c.comes(fmt.Sprintf("%s %s", at, to))
	then := map[admin.Access]string{
		admin.AccessDisabled:  "Its requests are refused within a minute.",
		admin.AccessEnabled:   "Its requests are served by their limits.",
		admin.AccessInherited: "The next wider switch decides.",
	}
	return c.sure(yes, fmt.Sprintf("Change access of %s? %s", at, then[to]), set)
}
