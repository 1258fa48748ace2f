package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

type usageJSON struct {
	Entity   string           `json:"entity"`
	Resource string           `json:"resource"`
	Window   string           `json:"window"`
	Start    string           `json:"start"`
	End      string           `json:"end"`
	Tokens   map[string]int64 `json:"tokens"`
	Events   int64            `json:"events"`
}

type summaryJSON struct {
	Window  string             `json:"window"`
	Windows int                `json:"windows"`
	From    string             `json:"from,omitempty"`
	To      string             `json:"to,omitempty"`
	Tokens  map[string]int64   `json:"tokens"`
	Mean    map[string]float64 `json:"mean"`
	Events  int64              `json:"events"`
}

func usageCommand(a *app) *cobra.Command {
	var q admin.UsageQuery
	var window, from, to string
	var sum, plot bool
	cmd := &cobra.Command{
		Use: "usage [-e ENTITY] [-r RESOURCE]", Short: "show what was consumed, by hour, day or month",
		Example: "  zae-limiter usage -e acme --window daily --from 2026-11-01\n" +
			"  zae-limiter usage -r gpt-4 --window monthly -o csv\n" +
			"  zae-limiter usage -e acme -r gpt-4 --window hourly --plot",
		Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if q.Entity == "" && q.Resource == "" {
				return usage(c, "whose usage? --entity, --resource or both")
			}
			if plot && (sum || a.format != "table") {
				return usage(c, "--plot is for people: neither --sum nor -o go with it")
			}
			q.Window = admin.Window(window)
			kinds := []admin.Window{"", admin.Hourly, admin.Daily, admin.Monthly}
			if !slices.Contains(kinds, q.Window) || sum && q.Window == "" {
				return usage(c, "--window %q: accepted are hourly, daily and monthly; --sum wants one", window)
			}
			var err1, err2 error
			q.From, err1 = parseTime(from)
			q.To, err2 = parseTime(to)
			if err1 != nil || err2 != nil {
				return usage(c, "--from %q --to %q: want dates like 2026-11-21, or 2026-11-21T12:00:00Z", from, to)
			}
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				if sum {
					s, err := ns.UsageSummary(c.Context(), q)
					if err != nil {
						return err
					}
					return a.printSummary(q.Window, s)
				}
				all, err := collect(ns.Usage(c.Context(), q), 0, same)
				if err != nil {
					return err
				}
				if plot {
					return a.plotUsage(all)
				}
				return a.printUsage(all)
			})
		},
	}
	cmd.Flags().StringVarP(&q.Entity, "entity", "e", "", "of an entity")
	cmd.Flags().StringVarP(&q.Resource, "resource", "r", "", "of a resource")
	cmd.Flags().StringVarP(&window, "window", "w", "", "hourly, daily or monthly (default: all)")
	cmd.Flags().StringVar(&from, "from", "", "windows that begin then or later, UTC")
	cmd.Flags().StringVar(&to, "to", "", "windows that begin before then, UTC")
	cmd.Flags().BoolVar(&sum, "sum", false, "add the windows up")
	cmd.Flags().BoolVar(&plot, "plot", false, "draw bars")
	complete(cmd, "window", []string{"hourly", "daily", "monthly"})
	return cmd
}

func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

// printUsage prints one row per window and limit.
func (a *app) printUsage(all []admin.Usage) error {
	r := rows{head: []string{"entity", "resource", "window", "start", "limit", "tokens", "events"}}
	values := []usageJSON{}
	for _, u := range all {
		values = append(values, usageJSON{u.Entity, u.Resource, string(u.Window), stamp(u.Start), stamp(u.End), u.Tokens,
			u.Events})
		for _, name := range sortedKeys(u.Tokens) {
			r.add(u.Entity, u.Resource, u.Window, u.Start, name, u.Tokens[name], u.Events)
		}
	}
	return a.print(values, r)
}

func (a *app) printSummary(window admin.Window, s admin.UsageSummary) error {
	r := rows{head: []string{"window", "windows", "from", "to", "limit", "tokens", "mean", "events"}}
	for _, name := range sortedKeys(s.Tokens) {
		r.add(window, s.Windows, s.From, s.To, name, s.Tokens[name], fmt.Sprintf("%.1f", s.Mean[name]), s.Events)
	}
	return a.print(summaryJSON{string(window), s.Windows, stamp(s.From), stamp(s.To), s.Tokens, s.Mean, s.Events}, r)
}
