package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

type eventJSON struct {
	ID        string         `json:"id"`
	At        string         `json:"at"`
	Action    string         `json:"action"`
	Principal string         `json:"principal,omitempty"`
	Entity    string         `json:"entity,omitempty"`
	Resource  string         `json:"resource,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

func auditCommand(a *app) *cobra.Command {
	var about admin.Subject
	var before string
	var most int
	cmd := &cobra.Command{
		Use: "audit [-e ENTITY | -r RESOURCE]", Short: "list who changed what, the newest first",
		Long: "List who changed what about an entity, the limits of a resource for everybody, or\n" +
			"the namespace, the newest first.",
		Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if about.Entity != "" && about.Resource != "" {
				return usage(c, "either --entity or --resource: events about an entity name their resource")
			}
			if most < 0 {
				return usage(c, "--max %d: want a number of events, 0 for all", most)
			}
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				events, err := collect(ns.Events(c.Context(), about, before), most, same)
				if err != nil {
					return err
				}
				return a.printEvents(events)
			})
		},
	}
	cmd.Flags().StringVarP(&about.Entity, "entity", "e", "", "about an entity")
	cmd.Flags().StringVarP(&about.Resource, "resource", "r", "", "about the limits of a resource")
	cmd.Flags().StringVar(&before, "before", "", "go on after the event of this ID")
	cmd.Flags().IntVar(&most, "max", 100, "events; 0: all")
	return cmd
}

func (a *app) printEvents(events []admin.Event) error {
	r := rows{head: []string{"at", "action", "principal", "entity", "resource", "details", "id"}}
	values := []eventJSON{}
	for _, e := range events {
		resource := e.Resource
		if resource == "" {
			resource = e.About.Resource
		}
		values = append(values, eventJSON{e.ID, stamp(e.At), e.Action, e.Principal, e.About.Entity, resource, e.Details})
		details, err := json.Marshal(e.Details)
		if err != nil {
			return err
		}
		r.add(e.At, e.Action, e.Principal, e.About.Entity, resource, string(details), e.ID)
	}
	return a.print(values, r)
}
