package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func entityCommand(a *app) *cobra.Command {
	return group("entity", "who is limited, described", entityCreate(a), entityGet(a), entityMove(a), entityDelete(a),
		entityChildren(a))
}

func entitiesAnswer(all ...admin.Entity) answer {
	r := rows{head: []string{"id", "name", "parent", "charges parent", "created"}}
	for _, e := range all {
		r.add(e.ID, e.Name, e.Parent, e.Cascade, e.CreatedAt)
	}
	return answer{value: all, rows: r}
}

func entityCreate(a *app) *cobra.Command {
	var e admin.Entity
	var metadata string
	cmd := a.inNamespace(&cobra.Command{
		Use: "create ID", Short: "describe an entity; only needed for names, metadata and parents",
		Args: args(1, 1),
		PreRunE: func(c *cobra.Command, names []string) error {
			if e.ID = names[0]; metadata == "" {
				return nil
			}
			if err := json.Unmarshal([]byte(metadata), &e.Metadata); err != nil {
				return usage(c, "--metadata: want a JSON object: %v", err)
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		created, err := c.ns.CreateEntity(c.ctx, e)
		return entitiesAnswer(created), err
	})
	cmd.Flags().StringVar(&e.Name, "name", "", "to show to people (default: the ID)")
	cmd.Flags().StringVar(&e.Parent, "parent", "", "entity that this one belongs to")
	cmd.Flags().BoolVar(&e.Cascade, "charge-parent", false, "what it takes is charged to its parent too")
	cmd.Flags().StringVar(&metadata, "metadata", "", "JSON object to keep with it")
	return cmd
}

func entityGet(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{Use: "get ID", Short: "show an entity", Args: args(1, 1)},
		func(c *call) (answer, error) {
			e, err := c.ns.Entity(c.ctx, c.args[0])
			return entitiesAnswer(e), err
		})
}

func entityMove(a *app) *cobra.Command {
	var parent string
	var alone bool
	cmd := a.inNamespace(&cobra.Command{
		Use: "move ID {--parent ID | --no-parent}", Short: "give an entity another parent, or none",
		Long: "Give an entity another parent, or none. Whether it is charged to its parent stays as it\n" +
			"is; clients charge the new one within a minute. If it fails, give it again.",
		Args: args(1, 1),
		PreRunE: func(c *cobra.Command, _ []string) error {
			if (parent != "") == alone {
				return usage(c, "--parent or --no-parent?")
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		e, err := c.ns.MoveEntity(c.ctx, c.args[0], parent)
		return entitiesAnswer(e), err
	})
	cmd.Flags().StringVar(&parent, "parent", "", "entity that this one belongs to from now on")
	cmd.Flags().BoolVar(&alone, "no-parent", false, "it belongs to none")
	return cmd
}

func entityChildren(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "children ID", Short: "list the entities that belong to one",
		Args: args(1, 1),
	}, func(c *call) (answer, error) {
		children, err := collect(c.ns.Children(c.ctx, c.args[0]), 0)
		return entitiesAnswer(children...), err
	})
}

func entityDelete(a *app) *cobra.Command {
	var yes bool
	cmd := a.inNamespace(&cobra.Command{
		Use: "delete ID", Short: "remove an entity with its limits, buckets and usage",
		Args: args(1, 1),
	}, func(c *call) (answer, error) {
		id := c.args[0]
		question := fmt.Sprintf("Remove entity %q with its limits, buckets and usage, for good?", id)
		if err := a.sure(yes, question); err != nil {
			return answer{}, err
		}
		return removedAnswer(c.ns.DeleteEntity(c.ctx, id))
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// removedAnswer tells how many items a removal has removed.
func removedAnswer(n int, err error) (answer, error) {
	if err != nil {
		return answer{}, fmt.Errorf("%d items removed, the same command goes on: %w", n, err)
	}
	r := rows{head: []string{"items removed"}}
	r.add(n)
	return answer{value: map[string]int{"items_removed": n}, rows: r}, nil
}
