package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func namespaceCommand(a *app) *cobra.Command {
	return group("namespace", "tenants within the table", namespaceRegister(a), namespaceList(a), namespaceDelete(a),
		namespaceRecover(a), namespacePurge(a))
}

func namespacesAnswer(all ...admin.NamespaceInfo) answer {
	r := rows{head: []string{"name", "id", "status", "created", "deleted"}}
	for _, n := range all {
		r.add(n.Name, n.ID, n.Status, n.CreatedAt, n.DeletedAt)
	}
	return answer{value: all, rows: r}
}

func namespaceRegister(a *app) *cobra.Command {
	return a.onTable(&cobra.Command{
		Use: "register NAME", Short: "create a namespace, if none has that name",
	}, func(c *call) (answer, error) {
		if _, err := c.all.Register(c.ctx, c.args[0]); err != nil {
			return answer{}, err
		}
		info, err := c.all.Lookup(c.ctx, c.args[0])
		return namespacesAnswer(info), err
	})
}

func namespaceList(a *app) *cobra.Command {
	var all bool
	cmd := a.onTable(&cobra.Command{Use: "list", Short: "list the active namespaces"},
		func(c *call) (answer, error) {
			found, err := collect(c.all.Namespaces(c.ctx), 0)
			if err == nil && all {
				var gone []admin.NamespaceInfo
				gone, err = collect(c.all.Orphans(c.ctx), 0)
				found = append(found, gone...)
			}
			return namespacesAnswer(found...), err
		})
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also deleted ones that are not purged yet")
	return cmd
}

func namespaceDelete(a *app) *cobra.Command {
	cmd := a.onTable(&cobra.Command{
		Use: "delete NAME", Short: "delete a namespace by its name; recover undoes that, purge removes its contents",
		PreRun: func(_ *cobra.Command, names []string) {
			a.namespace = names[0] // the advice on errors names it
		},
	}, func(c *call) (answer, error) {
		info, err := c.all.Lookup(c.ctx, c.args[0])
		if err != nil {
			return answer{}, err
		}
		a.leaves(spaceLine(info))
		question := fmt.Sprintf("Delete namespace %q? Its clients are refused within a minute.", info.Name)
		return c.sure(question, func() (answer, error) {
			if err := c.all.DeleteNamespace(c.ctx, info.ID); err != nil {
				return answer{}, err
			}
			a.say("deleted; zae-limiter namespace recover %s brings it back", info.ID)
			info.Status = admin.NamespaceDeleted
			return namespacesAnswer(info), nil
		})
	})
	return a.asks(cmd)
}

// spaceLine is the line of a namespace that is about to be removed.
func spaceLine(n admin.NamespaceInfo) string {
	line := fmt.Sprintf("namespace %q, ID %s", n.Name, n.ID)
	if !n.CreatedAt.IsZero() {
		line += ", created " + stamp(n.CreatedAt)
	}
	if !n.DeletedAt.IsZero() {
		line += ", deleted " + stamp(n.DeletedAt)
	}
	return line
}

func namespaceRecover(a *app) *cobra.Command {
	return a.onTable(&cobra.Command{
		Use: "recover ID", Short: "give a deleted namespace its name back (namespace list --all has the ids)",
	}, func(c *call) (answer, error) {
		ns, err := c.all.RecoverNamespace(c.ctx, c.args[0])
		if err != nil {
			return answer{}, err
		}
		info, err := c.all.Lookup(c.ctx, ns.Name())
		return namespacesAnswer(info), err
	})
}

func namespacePurge(a *app) *cobra.Command {
	cmd := a.onTable(&cobra.Command{
		Use: "purge ID", Short: "remove a deleted namespace with everything in it, for good",
	}, func(c *call) (answer, error) {
		id := c.args[0]
		switch _, err := c.all.Lookup(c.ctx, id); {
		case err == nil:
			return answer{}, usage(c.cmd, "%q is the name of a namespace in use: delete it, and purge the ID that it had", id)
		case !errors.Is(err, limiter.ErrNamespace):
			return answer{}, err
		}
		there := false
		for n, err := range c.all.Orphans(c.ctx) {
			if err != nil {
				return answer{}, err
			}
			if n.ID == id {
				there = true
				a.leaves(spaceLine(n) + ", and everything in it")
			}
		}
		question := fmt.Sprintf("Remove everything in namespace %s, for good?", id)
		return c.sure(question, func() (answer, error) {
			n, err := c.all.PurgeNamespace(c.ctx, id)
			if err == nil && n == 0 && !there {
				a.say("nothing was there: it is purged already, or namespace list --all has another ID")
			}
			return removedAnswer(n, err)
		})
	})
	return a.asks(cmd)
}
