package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func entityCommand(a *app) *cobra.Command {
	return group("entity", "who is limited, described", entityCreate(a), entityGet(a), entityDelete(a), entityChildren(a))
}

type entityJSON struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Parent    string         `json:"parent,omitempty"`
	Cascade   bool           `json:"cascade"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	CreatedAt string         `json:"created_at"`
}

func (a *app) printEntities(entities ...admin.Entity) error {
	r := rows{head: []string{"id", "name", "parent", "charges parent", "created"}}
	all := []entityJSON{}
	for _, e := range entities {
		all = append(all, entityJSON{e.ID, e.Name, e.Parent, e.Cascade, e.Metadata, stamp(e.CreatedAt)})
		r.add(e.ID, e.Name, e.Parent, e.Cascade, e.CreatedAt)
	}
	return a.print(all, r)
}

func entityCreate(a *app) *cobra.Command {
	var e admin.Entity
	var metadata string
	cmd := &cobra.Command{
		Use: "create ID", Short: "describe an entity; only needed for names, metadata and parents",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			e.ID = names[0]
			if metadata != "" {
				if err := json.Unmarshal([]byte(metadata), &e.Metadata); err != nil {
					return usage(c, "--metadata: want a JSON object: %v", err)
				}
			}
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				created, err := ns.CreateEntity(c.Context(), e)
				if err != nil {
					return err
				}
				return a.printEntities(created)
			})
		},
	}
	cmd.Flags().StringVar(&e.Name, "name", "", "to show to people (default: the ID)")
	cmd.Flags().StringVar(&e.Parent, "parent", "", "entity that this one belongs to")
	cmd.Flags().BoolVar(&e.Cascade, "charge-parent", false, "what it takes is charged to its parent too")
	cmd.Flags().StringVar(&metadata, "metadata", "", "JSON object to keep with it")
	return cmd
}

func entityGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "show an entity",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				e, err := ns.Entity(c.Context(), names[0])
				if err != nil {
					return err
				}
				return a.printEntities(e)
			})
		},
	}
}

func entityChildren(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "children ID", Short: "list the entities that belong to one",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				children, err := collect(ns.Children(c.Context(), names[0]), 0, same)
				if err != nil {
					return err
				}
				return a.printEntities(children...)
			})
		},
	}
}

func entityDelete(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete ID", Short: "remove an entity with its limits, buckets and usage",
		Args: args(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				question := fmt.Sprintf("Remove entity %q with its limits, buckets and usage, for good?", names[0])
				if err := a.sure(yes, question); err != nil {
					return err
				}
				n, err := ns.DeleteEntity(c.Context(), names[0])
				if err != nil {
					return fmt.Errorf("%d items removed, the same command goes on: %w", n, err)
				}
				return a.printRemoved(n)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) printRemoved(n int) error {
	r := rows{head: []string{"items removed"}}
	r.add(n)
	return a.print(map[string]int{"items_removed": n}, r)
}
