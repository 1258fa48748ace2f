package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func entityCommand(a *app) *cobra.Command {
	return group("entity", "names, parents and metadata of entities",
		entityCreate(a), entityGet(a), entityMove(a), entityDelete(a), entityChildren(a))
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
		Use: "create ID", Short: "describe an entity: only for a name, metadata or a parent",
		PreRunE: func(c *cobra.Command, names []string) error {
			if e.ID = names[0]; metadata == "" {
				return nil
			}
			d := json.NewDecoder(strings.NewReader(metadata))
			d.UseNumber() // whole numbers stay exact
			err := d.Decode(&e.Metadata)
			if _, end := d.Token(); err == nil && end != io.EOF {
				err = errors.New("something follows it")
			}
			if err != nil {
				return usage(c, `--metadata %#q: want a JSON object, such as {"tier": "gold"}: %s`, shortened(metadata, 60),
					oddJSON(err))
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		created, err := c.ns.CreateEntity(c.ctx, e)
		return entitiesAnswer(created), err
	})
	cmd.Flags().StringVar(&e.Name, "name", "", "display name (default: the ID)")
	cmd.Flags().StringVar(&e.Parent, "parent", "", "parent entity")
	cmd.Flags().BoolVar(&e.Cascade, "charge-parent", false, "charge its requests to its parent too")
	cmd.Flags().StringVar(&metadata, "metadata", "", "JSON object to store with it")
	return cmd
}

// oddJSON says why a text is not a JSON object, without Go's terms.
func oddJSON(err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "it is a JSON " + kind.Value
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

func entityGet(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{Use: "get ID", Short: "show an entity"},
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
		Long: "Give an entity another parent, or none. Its flag to charge the parent stays as it is;\n" +
			"clients charge the new parent within a minute. If it fails, repeat it. The command shows\n" +
			"the change first, and asks (unless --yes).",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if (parent != "") == alone {
				return usage(c, "--parent or --no-parent?")
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		return c.move(parent)
	})
	cmd.Flags().StringVar(&parent, "parent", "", "new parent entity")
	cmd.Flags().BoolVar(&alone, "no-parent", false, "no parent")
	return a.asks(cmd)
}

// move shows the present and the new parent, asks, and moves the entity. If the parents are the
// same, it only updates buckets that do not have the parent yet, and does not ask.
func (c *call) move(parent string) (answer, error) {
	was, err := c.ns.Entity(c.ctx, c.args[0])
	if err != nil {
		return answer{}, err
	}
	move := func() (answer, error) {
		e, err := c.ns.MoveEntity(c.ctx, c.args[0], parent)
		return entitiesAnswer(e), err
	}
	now := was
	now.Parent = parent
	question := fmt.Sprintf("Move entity %q?", was.ID)
	return c.change(question, "", []string{belongs(was)}, []string{belongs(now)}, move, move)
}

// belongs names the parent of an entity.
func belongs(e admin.Entity) string {
	switch {
	case e.Parent == "":
		return fmt.Sprintf("%q belongs to none", e.ID)
	case e.Cascade:
		return fmt.Sprintf("%q belongs to %q, and charges it", e.ID, e.Parent)
	}
	return fmt.Sprintf("%q belongs to %q", e.ID, e.Parent)
}

func entityChildren(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "children ID", Short: "list the children of an entity",
	}, func(c *call) (answer, error) {
		children, err := collect(c.ns.Children(c.ctx, c.args[0]), 0)
		return entitiesAnswer(children...), err
	})
}

func entityDelete(a *app) *cobra.Command {
	cmd := a.inNamespace(&cobra.Command{
		Use: "delete ID", Short: "remove an entity with its limits, buckets and usage",
		Long: "Remove an entity with its limits, buckets and usage. The command shows all but the usage\n" +
			"first, and asks (unless --yes). The audit trail stays. Requests of children that charge it\n" +
			"fail from then on: move or remove these first.",
	}, func(c *call) (answer, error) {
		id := c.args[0]
		question := fmt.Sprintf("Remove entity %q with its limits, buckets and usage, for good?", id)
		err := a.holdings(c, id)
		if err == nil {
			err = a.orphans(c, id)
		}
		if err != nil {
			return answer{}, err
		}
		return c.sure(question, func() (answer, error) {
			return removedAnswer(c.ns.DeleteEntity(c.ctx, id))
		})
	})
	return a.asks(cmd)
}

// holdings shows all items of an entity, including the items that cannot be read.
func (a *app) holdings(c *call, id string) error {
	e, err := c.ns.Entity(c.ctx, id)
	if err == nil {
		a.leaves(belongs(e))
	}
	if err = a.odd(id, err); err != nil {
		return err
	}
	for config, err := range c.ns.Configs(c.ctx, admin.Scope{Entity: id}) {
		if err = a.odd(id, err); err != nil {
			return err
		}
		for _, l := range config.Lines() {
			a.leaves(config.Scope.String() + " " + l)
		}
	}
	for b, err := range c.ns.Buckets(c.ctx, admin.Scope{Entity: id}) {
		if err = a.odd(id, err); err != nil {
			return err
		}
		a.leaves(bucketLines(b)...)
	}
	return nil
}

// orphans warns about children that need the entity as their parent.
func (a *app) orphans(c *call, id string) error {
	n := 0
	for child, err := range c.ns.Children(c.ctx, id) {
		if unanswered(err) {
			return err
		}
		if err == nil && child.Cascade {
			n++
		}
	}
	if n > 0 {
		a.say("children that charge it: %d. Their requests fail until entity move gives them another parent", n)
	}
	return nil
}

// odd shows an item that cannot be read. Such an item does not block a removal; a table that does
// not answer does.
func (a *app) odd(id string, err error) error {
	switch {
	case isNotFound(err):
		return nil
	case err == nil, unanswered(err):
		return err
	}
	a.leaves(fmt.Sprintf("%q what cannot be read: %v", id, err))
	return nil
}

// removedAnswer reports how many items were removed.
func removedAnswer(n int, err error) (answer, error) {
	if err != nil && n == 0 {
		return answer{}, err // going on may be useless
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s removed, the same command goes on: %w", count(n, "items"), err)
	}
	return single(map[string]int{"items_removed": n}, []string{"items removed"}, n), nil
}
