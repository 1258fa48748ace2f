package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

func usageCommand(a *app) *cobra.Command {
	var q admin.UsageQuery
	var window string
	var sum, plot bool
	cmd := a.inNamespace(&cobra.Command{
		Use: "usage [-e ENTITY] [-r RESOURCE]", Short: "show consumption by hour, day or month",
		Example: "  zae-limiter usage -e acme --window daily --from 2026-11-01\n" +
			"  zae-limiter usage -r gpt-4 --window monthly -o csv\n" +
			"  zae-limiter usage -e acme -r gpt-4 --window hourly --plot",
		PreRunE: func(c *cobra.Command, _ []string) error {
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
			return nil
		},
	}, func(c *call) (answer, error) {
		if sum {
			s, err := c.ns.UsageSummary(c.ctx, q)
			return summaryAnswer(s), err
		}
		all, err := collect(c.ns.Usage(c.ctx, q), 0)
		said := usageAnswer(all)
		if plot {
			if said.text = plotUsage(all); said.text == "" && len(all) > 0 {
				c.say("no limit has two windows of one length to compare, so this is no plot:")
			}
		}
		return said, err
	})
	cmd.Flags().StringVarP(&q.Entity, "entity", "e", "", "of an entity")
	cmd.Flags().StringVarP(&q.Resource, "resource", "r", "", "of a resource")
	cmd.Flags().StringVarP(&window, "window", "w", "", "hourly, daily or monthly (default: all)")
	between(cmd, &q.From, &q.To, "windows that start")
	cmd.Flags().BoolVar(&sum, "sum", false, "add the windows up")
	cmd.Flags().BoolVar(&plot, "plot", false, "draw bars for each limit, in the shortest windows available")
	complete(cmd, "window", []string{"hourly", "daily", "monthly"})
	return cmd
}

// between adds --from and --to.
func between(c *cobra.Command, from, to *time.Time, things string) {
	c.Flags().TimeVar(from, "from", time.Time{}, timeForms, things+" at this time or later, UTC")
	c.Flags().TimeVar(to, "to", time.Time{}, timeForms, things+" before this time, UTC")
}

// timeForms are the accepted forms of times.
var timeForms = []string{time.DateOnly, time.RFC3339}

// limitsIn returns the limits with tokens taken, sorted by name. If everything was denied it
// returns one empty name.
func limitsIn(tokens map[string]int64, denied int64) []string {
	if len(tokens) == 0 && denied > 0 {
		return []string{""}
	}
	return sortedKeys(tokens)
}

func usageAnswer(all []admin.Usage) answer {
	r := rows{head: []string{"entity", "resource", "window", "start", "limit", "tokens", "events", "denied"}}
	for _, u := range all {
		for _, name := range limitsIn(u.Tokens, u.Denied) {
			r.add(u.Entity, u.Resource, u.Window, u.Start, name, amountIn(name, u.Tokens[name]), u.Events, u.Denied)
		}
	}
	return answer{value: all, rows: r}
}

func summaryAnswer(s admin.UsageSummary) answer {
	r := rows{head: []string{"window", "windows", "from", "to", "limit", "tokens", "mean", "events", "denied"}}
	for _, name := range limitsIn(s.Tokens, s.Denied) {
		mean := any(fmt.Sprintf("%.1f", s.Mean[name]))
		if validate.InDollars(name) {
			mean = amountIn(name, int64(math.Round(s.Mean[name])))
		}
		r.add(s.Window, s.Windows, s.From, s.To, name, amountIn(name, s.Tokens[name]), mean, s.Events, s.Denied)
	}
	return answer{value: s, rows: r}
}
