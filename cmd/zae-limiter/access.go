package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

// shownAccess is the JSON form of a scope's switches.
type shownAccess struct {
	Entity, Resource, Access, Cascade string
	Buckets                           int
}

const accessLong = `There is a switch for an entity on a resource, one for the entity, and one for the
resource. The first of them that is set decides; if none is, requests are served. Limits
stay as they are. The command shows the change first, and asks (unless --yes).`

// accessCommands are the commands that set the switch of a scope.
func accessCommands(a *app) (out []*cobra.Command) {
	for _, c := range []struct {
		to                                admin.Access
		name, flags, short, long, example string
		then                              string
	}{
		{to: admin.AccessDisabled, name: "disable", short: "serve no requests, whatever the limits",
			long: "Serve no requests, whatever the limits.\n\n" + accessLong,
			example: "  zae-limiter disable -r gpt-4\n" +
				"  zae-limiter enable -e acme -r gpt-4\n" +
				"  zae-limiter enable -r gpt-4 --inherit",
			then: "Its requests are refused within a minute."},
		{to: admin.AccessEnabled, name: "enable", flags: " [--inherit]",
			short: "serve requests by their limits, even if a wider switch disables them",
			long:  "Serve requests by their limits, even if a wider switch disables them.\n\n" + accessLong,
			then:  "Its requests are served by their limits."},
		{to: admin.AccessBypassed, name: "bypass",
			short: "grant every request and take nothing for it, whatever the limits",
			long: "Grant every request and take nothing for it, whatever the limits. It is not counted as\n" +
				"usage. Python clients before 0.17 apply the limits.\n\n" + accessLong + "\nenable --inherit ends it.",
			then: "Its requests are granted within a minute, and take nothing."},
	} {
		inherit := false
		cmd := decideCommand(a, &cobra.Command{
			Use:   c.name + " {-e ENTITY | -r RESOURCE | -e ENTITY -r RESOURCE}" + c.flags,
			Short: c.short, Long: c.long, Example: c.example,
		}, func(run *call, at admin.Scope) decision {
			to, then := c.to, c.then
			if inherit {
				to, then = admin.AccessInherited, "The next wider switch decides."
			}
			return decision{"access", func(was admin.Config) string { return was.Access.String() }, to.String(),
				fmt.Sprintf("Change access of %s? %s", at, then), shownAccess{Access: to.String()},
				func() (admin.Reached, error) { return run.ns.SetAccess(run.ctx, at, to) }}
		})
		if c.flags != "" {
			cmd.Flags().BoolVar(&inherit, "inherit", false, "set nothing here: neither enabled nor disabled")
		}
		out = append(out, cmd)
	}
	return out
}

func cascadeCommand(a *app) *cobra.Command {
	policies := map[string]admin.Cascade{
		"on": admin.CascadeOn, "off": admin.CascadeOff, "inherit": admin.CascadeInherited,
	}
	return decideCommand(a, &cobra.Command{
		Use:   "cascade on|off|inherit {-e ENTITY | -r RESOURCE | -e ENTITY -r RESOURCE}",
		Short: "switch charging of parents on or off, whatever the entities say",
		Long: "Charge requests to the parent of their entity too, or not, whatever the entity itself\n" +
			"says (entity create --charge-parent). There is a policy for an entity on a resource, one\n" +
			"for the entity, and one for the resource. The first of them that is set decides. The\n" +
			"command shows the change first, and asks (unless --yes).",
		Example:   "  zae-limiter cascade off -r embeddings",
		ValidArgs: []string{"on", "off", "inherit"},
	}, func(c *call, at admin.Scope) decision {
		to := policies[c.args[0]]
		return decision{"charges parents", func(was admin.Config) string { return "cascade: " + was.Cascade.String() },
			"cascade: " + to.String(), fmt.Sprintf("Change the cascade policy of %s?", at),
			shownAccess{Cascade: to.String()},
			func() (admin.Reached, error) { return c.ns.SetCascade(c.ctx, at, to) }}
	})
}

// decision is a change of a scope's settings other than limits.
type decision struct {
	head         string
	was          func(admin.Config) string
	to, question string
	shown        shownAccess
	set          func() (admin.Reached, error)
}

// decideCommand makes a command that carries out a decision. It shows the setting before and after,
// asks, and stores it. If nothing changes, it only updates buckets that do not have the setting
// yet, and does not ask.
func decideCommand(a *app, cmd *cobra.Command, decide func(*call, admin.Scope) decision) *cobra.Command {
	var at admin.Scope
	cmd.PreRunE = func(c *cobra.Command, _ []string) error {
		if at == (admin.Scope{}) {
			return usage(c, "neither --entity nor --resource is given")
		}
		return nil
	}
	return a.asks(scopeFlags(a.inNamespace(cmd, func(c *call) (answer, error) {
		was, err := c.stored(at)
		if unanswered(err) {
			return answer{}, err
		}
		d := decide(c, at)
		set := func() (answer, error) {
			n, err := d.set()
			d.shown.Entity, d.shown.Resource, d.shown.Buckets = at.Entity, at.Resource, n.Buckets
			return single(d.shown, []string{"entity", "resource", d.head, "buckets"},
				anyone(at.Entity), anyone(at.Resource), d.shown.Access+d.shown.Cascade, n.Buckets), err
		}
		return c.change(d.question, at.String()+" ", []string{d.was(was)}, []string{d.to}, set, set)
	}), &at))
}
