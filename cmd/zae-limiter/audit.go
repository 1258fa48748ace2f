package main

import (
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func auditCommand(a *app) *cobra.Command {
	var about admin.Scope
	var all bool
	var before string
	var most int
	var since, until time.Time
	cmd := a.inNamespace(&cobra.Command{
		Use: "audit [-e ENTITY | -r RESOURCE | --all]", Short: "list changes and their authors, newest first",
		Long: "List changes of an entity, of the limits of a resource for everybody, of the\n" +
			"namespace, or with --all of any of them, and their authors, newest first.",
		Example: "  zae-limiter audit -e acme\n  zae-limiter audit --all --from 2026-11-01 --to 2026-11-02",
		PreRunE: func(c *cobra.Command, _ []string) error {
			switch {
			case about.Entity != "" && about.Resource != "":
				return usage(c, "either --entity or --resource: events about an entity name their resource")
			case all && (about != admin.Scope{} || before != ""):
				return usage(c, "--all lists everything: no --entity, --resource or --before goes with it")
			case most < 0:
				return usage(c, "--max %d: want a number of events, 0 for all", most)
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		events := c.ns.AllEvents(c.ctx, since, until)
		if !all {
			events = during(c.ns.Events(c.ctx, about, before), since, until)
		}
		found, err := collect(events, most)
		said := eventsAnswer(found)
		said.none = elsewhere(about, all)
		return said, err
	})
	named(cmd, &about, "about an entity", "about the limits of a resource")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "everything in the namespace")
	between(cmd, &since, &until, "events")
	cmd.Flags().StringVar(&before, "before", "", "continue after the event with this ID; empty: from the newest")
	cmd.Flags().IntVar(&most, "max", 100, "at most so many events; 0: all")
	return cmd
}

// elsewhere suggests where else to look if an entity or a resource has no events: its limits may be
// stored for a resource, or for everybody.
func elsewhere(about admin.Scope, all bool) string {
	switch {
	case about.Entity != "":
		return "nothing there about the entity alone. Its limits may be stored for a resource (audit -r RESOURCE) or for " +
			"everybody (audit); audit --all has all of them, and limits resolve ENTITY RESOURCE says which are in force"
	case about.Resource != "":
		return "nothing there about the resource for everybody. Limits may be stored for an entity (audit -e ENTITY) or " +
			"for everything (audit); audit --all has all of them"
	case !all:
		return "nothing there about the whole namespace. audit --all also has entities and resources"
	}
	return ""
}

// during yields the events from an instant until before another, newest first. A zero instant sets
// no bound.
func during(events iter.Seq2[admin.Event, error], from, to time.Time) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		for e, err := range events {
			if err == nil && e.At.Before(from) {
				return
			}
			if early := err != nil || to.IsZero() || e.At.Before(to); early && !yield(e, err) {
				return
			}
		}
	}
}

func eventsAnswer(events []admin.Event) answer {
	r := rows{head: []string{"at", "action", "principal", "entity", "resource", "details", "id"}}
	for _, e := range events {
		r.add(e.At, e.Action, e.Principal, e.Entity, e.Resource, cut(details(e.Details)), e.ID)
	}
	return answer{value: events, rows: r}
}
