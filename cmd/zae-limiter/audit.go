package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func auditCommand(a *app) *cobra.Command {
	var about admin.Scope
	var before string
	var most int
	cmd := a.inNamespace(&cobra.Command{
		Use: "audit [-e ENTITY | -r RESOURCE]", Short: "list who changed what, the newest first",
		Long: "List who changed what about an entity, the limits of a resource for everybody, or\n" +
			"the namespace, the newest first.",
		Args: args(0, 0),
		PreRunE: func(c *cobra.Command, _ []string) error {
			if about.Entity != "" && about.Resource != "" {
				return usage(c, "either --entity or --resource: events about an entity name their resource")
			}
			if most < 0 {
				return usage(c, "--max %d: want a number of events, 0 for all", most)
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		events, err := collect(c.ns.Events(c.ctx, about, before), most)
		if err != nil {
			return answer{}, err
		}
		return eventsAnswer(events)
	})
	cmd.Flags().StringVarP(&about.Entity, "entity", "e", "", "about an entity")
	cmd.Flags().StringVarP(&about.Resource, "resource", "r", "", "about the limits of a resource")
	cmd.Flags().StringVar(&before, "before", "", "go on after the event of this ID")
	cmd.Flags().IntVar(&most, "max", 100, "events; 0: all")
	return cmd
}

func eventsAnswer(events []admin.Event) (answer, error) {
	r := rows{head: []string{"at", "action", "principal", "entity", "resource", "details", "id"}}
	for _, e := range events {
		details, err := json.Marshal(e.Details)
		if err != nil {
			return answer{}, err
		}
		r.add(e.At, e.Action, e.Principal, e.Entity, e.Resource, string(details), e.ID)
	}
	return answer{value: events, rows: r}, nil
}
