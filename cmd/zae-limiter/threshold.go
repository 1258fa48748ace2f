package main

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

func thresholdsCommand(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "thresholds ENTITY [RESOURCE]", Short: "list when 50, 80 and 100 % of quotas were spent",
		Long: "List when an entity had spent 50, 80 and 100 % of its quotas, by period. The aggregator\n" +
			"records each once in a period.",
		Args: args(1, 2),
	}, func(c *call) (answer, error) {
		of := admin.Scope{Entity: c.args[0]}
		if len(c.args) > 1 {
			of.Resource = c.args[1]
		}
		all, err := collect(c.ns.Thresholds(c.ctx, of), 0)
		return thresholdsAnswer(all), err
	})
}

func thresholdsAnswer(all []admin.Threshold) answer {
	r := rows{head: []string{"entity", "resource", "limit", "percent", "spent", "quota", "at", "period end"}}
	for _, t := range all {
		r.add(t.Entity, t.Resource, t.Limit, t.Percent, t.Spent, t.Quota, t.At, t.PeriodEnd)
	}
	return answer{value: all, rows: r}
}
