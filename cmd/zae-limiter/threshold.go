package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func thresholdsCommand(a *app) *cobra.Command {
	var of admin.Scope
	var since, until time.Time
	cmd := a.inNamespace(&cobra.Command{
		Use: "thresholds -e ENTITY [-r RESOURCE]", Short: "list when percentages of quotas were spent",
		Long: "List when an entity had spent percentages of its quotas, by period. The aggregator\n" +
			"records each once in a period: 50, 80 and 100 %, or as its option THRESHOLDS says.",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if of.Entity == "" {
				return usage(c, "whose thresholds? --entity, and --resource if you like")
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		all, err := collect(c.ns.Thresholds(c.ctx, of), 0)
		all = slices.DeleteFunc(all, func(t admin.Threshold) bool {
			return t.At.Before(since) || !until.IsZero() && !t.At.Before(until)
		})
		return thresholdsAnswer(all), err
	})
	named(cmd, &of, "of an entity", "of a resource")
	between(cmd, &since, &until, "events")
	return cmd
}

func thresholdsAnswer(all []admin.Threshold) answer {
	r := rows{head: []string{"entity", "resource", "limit", "percent", "spent", "quota", "at", "period end"}}
	for _, t := range all {
		r.add(t.Entity, t.Resource, t.Limit, t.Percent, amountIn(t.Limit, t.Spent), amountIn(t.Limit, t.Quota),
			t.At, t.PeriodEnd)
	}
	return answer{value: all, rows: r}
}
