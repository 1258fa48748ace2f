package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func namespaceCommand(a *app) *cobra.Command {
	return group("namespace", "tenants within the table", namespaceRegister(a), namespaceList(a), namespaceDelete(a),
		namespaceRecover(a), namespacePurge(a))
}

type namespaceJSON struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	CreatedAt string `json:"created_at,omitempty"`
	DeletedAt string `json:"deleted_at,omitempty"`
}

func namespaceOf(n admin.NamespaceInfo) namespaceJSON {
	return namespaceJSON{n.ID, n.Name, string(n.Status), stamp(n.CreatedAt), stamp(n.DeletedAt)}
}

func (a *app) printNamespaces(all []namespaceJSON) error {
	r := rows{head: []string{"name", "id", "status", "created", "deleted"}}
	for _, n := range all {
		r.add(n.Name, n.ID, n.Status, n.CreatedAt, n.DeletedAt)
	}
	return a.print(all, r)
}

// printNamespace prints what a look-up brought.
func (a *app) printNamespace(info admin.NamespaceInfo, err error) error {
	if err != nil {
		return err
	}
	return a.printNamespaces([]namespaceJSON{namespaceOf(info)})
}

func namespaceRegister(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "register NAME", Short: "make a namespace, if there is none of that name",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			return a.onTable(c.Context(), func(t *admin.Table) error {
				if _, err := t.Register(c.Context(), names[0]); err != nil {
					return err
				}
				return a.printNamespace(t.Lookup(c.Context(), names[0]))
			})
		},
	}
}

func namespaceList(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "list the active namespaces",
		Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.onTable(c.Context(), func(t *admin.Table) error {
				found, err := collect(t.Namespaces(c.Context()), 0, namespaceOf)
				if err == nil && all {
					var gone []namespaceJSON
					gone, err = collect(t.Orphans(c.Context()), 0, namespaceOf)
					found = append(found, gone...)
				}
				if err != nil {
					return err
				}
				return a.printNamespaces(found)
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that were deleted and are not purged yet")
	return cmd
}

func namespaceDelete(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "take the name away; recover undoes it, purge removes what is in it",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			a.namespace = names[0]
			return a.onTable(c.Context(), func(t *admin.Table) error {
				info, err := t.Lookup(c.Context(), names[0])
				if err != nil {
					return err
				}
				if err := t.DeleteNamespace(c.Context(), names[0]); err != nil {
					return err
				}
				a.say("deleted; zae-limiter namespace recover %s brings it back", info.ID)
				info.Status = admin.Deleted
				return a.printNamespace(info, nil)
			})
		},
	}
}

func namespaceRecover(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "recover ID", Short: "give a deleted namespace its name back (namespace list --all has the ids)",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, ids []string) error {
			return a.onTable(c.Context(), func(t *admin.Table) error {
				ns, err := t.RecoverNamespace(c.Context(), ids[0])
				if err != nil {
					return err
				}
				return a.printNamespace(t.Lookup(c.Context(), ns.Name()))
			})
		},
	}
}

func namespacePurge(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "purge ID", Short: "remove a deleted namespace with everything in it, for good",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, ids []string) error {
			return a.onTable(c.Context(), func(t *admin.Table) error {
				if _, err := t.Lookup(c.Context(), ids[0]); err == nil {
					return usage(c, "%q is the name of a namespace in use: delete it, and purge the ID that it had", ids[0])
				}
				if err := a.sure(yes, fmt.Sprintf("Remove everything in namespace %s, for good?", ids[0])); err != nil {
					return err
				}
				n, err := t.PurgeNamespace(c.Context(), ids[0])
				if err != nil {
					return fmt.Errorf("%d items removed, the same command goes on: %w", n, err)
				}
				if n == 0 {
					a.say("nothing was there: it is purged already, or namespace list --all has another ID")
				}
				return a.printRemoved(n)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
