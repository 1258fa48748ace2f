package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/pricing"
)

// billed is the deployment for which cost computes the bill.
type billed struct {
	tableOnly, provisioned bool
	template               string // a file; empty: the default options
}

// stack returns the billed parts. A template without an aggregator has no usage.
func (d billed) stack(u *pricing.Use) (pricing.Stack, error) {
	s := pricing.Default()
	if d.tableOnly {
		s = pricing.Stack{Table: true, Recovery: s.Recovery}
	}
	if d.template != "" {
		text, err := os.ReadFile(d.template)
		if err == nil {
			s, err = pricing.Of(text)
		}
		if err != nil {
			return s, err
		}
		if s.Aggregator == 0 {
			u.Windows = 0
		}
	}
	if d.provisioned {
		s = pricing.Provisioned(s)
	}
	return s, nil
}

func costCommand(a *app) *cobra.Command {
	var u pricing.Use
	var d billed
	var ahead, within time.Duration
	cmd := a.does(&cobra.Command{
		Use: "cost --rate R", Short: "compute what a month costs",
		Long: `Compute what a month of 730 hours costs in us-east-1: requests, storage, functions, logs,
metrics and alarms. Each path has the units that were measured. Denials come on top: at
most one write a second for each process and bucket.

Entities may be idle at times. Then stored limits cost less than the line says, and so does
usage, unless --skew says how unevenly entities are used (1.1 was measured). docs/cost.md
explains the lines.`,
		Example: "  zae-limiter cost --rate 10 --settle 1 --processes 4 --entities 200",
		PreRunE: func(c *cobra.Command, _ []string) error {
			u.Ahead, u.SettleWithin = ahead.Seconds(), within.Seconds()
			if err := u.Check(); err != nil {
				return usage(c, "%v", err)
			}
			if d.template != "" && (d.tableOnly || d.provisioned) {
				return usage(c, "--template says what is deployed: want neither --table-only nor --provisioned with it")
			}
			return nil
		},
	}, func(*call) (answer, error) {
		s, err := d.stack(&u)
		if err != nil {
			return answer{}, err
		}
		lines := pricing.Month(u, s)
		lines = append(lines, pricing.Line{Part: "sum", Dollars: pricing.Sum(lines)})
		r := rows{head: []string{"part", "units", "$ a month"}}
		for _, l := range lines {
			r.add(l.Part, l.Amount(), fmt.Sprintf("%.2f", l.Dollars))
		}
		return answer{value: lines, rows: r}, nil
	})
	f := cmd.Flags()
	f.Float64Var(&u.Rate, "rate", 0, "granted requests per second, on average")
	f.Float64Var(&u.Settled, "settle", 0, "settled share of these requests, 0 to 1")
	f.IntVar(&u.Levels, "levels", 1, "entities that each request charges: itself, its parent, ...")
	f.IntVar(&u.Processes, "processes", 1, "processes that take from every entity")
	f.Float64Var(&u.Starts, "starts", 30, "starts of each process in a month: deployments, Lambda environments")
	f.DurationVar(&ahead, "ahead", 0, "how long tokens are taken ahead (Options.Ahead); at most half of the fill time")
	f.DurationVar(&within, "settle-within", 0, "how long settlements wait for a charge (Options.SettleWithin)")
	f.IntVar(&u.Entities, "entities", 1, "entities and resources that are in use all the time")
	f.Float64Var(&u.Skew, "skew", 0, "exponent of Zipf's law for the use of entities; 0: all of them all the time")
	f.IntVar(&u.Windows, "windows", 2, "windows of usage: 1 hours; 2 also days; 3 also months; 0 none")
	f.Float64Var(&u.FoldSeconds, "fold", 60, "seconds between writes of usage (aggregatorFoldSeconds); 0: not folded")
	f.BoolVar(&u.LimitsInCode, "limits-in-code", false, "read no stored limits")
	f.IntVar(&u.SnapshotDays, "snapshot-days", 90, "days that usage is kept (snapshotTtlDays)")
	f.IntVar(&u.StreamShards, "stream-shards", 4, "shards of the table's stream: a new table has four")
	f.Float64Var(&u.Audits, "audits", 0, "archived audit events in a month")
	f.Float64Var(&u.Utilization, "utilization", 0.5, "average share of provisioned capacity in use, up to 1")
	f.BoolVar(&d.provisioned, "provisioned", false, "capacity is provisioned, not on demand")
	f.BoolVar(&d.tableOnly, "table-only", false, "only the charges of DynamoDB")
	f.StringVar(&d.template, "template", "", "synthesized template of the stack (default: default options)")
	return cmd
}
