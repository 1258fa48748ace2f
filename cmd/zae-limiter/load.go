package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// loadPlan is the description of a load test.
type loadPlan struct {
	Table, Namespace string
	Resource, Prefix string
	Entities         int
	Skew             float64
	Limits           []limiter.Limit // nil: stored ones
	Costs            limiter.Costs
	Rate             float64
	Arrivals         string
	Duration         time.Duration
	Processes        int
	Seed             uint64
	Timeout          time.Duration // of each call; 0: the limiter's default
}

func loadCommand(a *app) *cobra.Command {
	var p loadPlan
	var limits, costs []string
	var report string
	cmd := a.does(&cobra.Command{
		Use: "load", Short: "send a load of requests to a table and report the results",
		Long: `Send requests to a table as a fleet would, and report what was admitted, how long it
took, and what it cost. It writes to the table: to buckets of the entities load-1,
load-2, ... on the resource load, by default.

Requests do not wait for earlier ones to be answered. Each is made by one of --processes
limiters that share nothing but the table. If the first 20 requests are all refused for a
reason that lasts, such as missing limits, no more are made.

The exit status is 3 if more was admitted in any window of time than the limits allow,
even by one token. A grant counts in a window only if its whole call lies in it, so every
reported excess is real. Limits may change during the load. But if others give back, reset
or credit tokens of these buckets, that looks like an excess.

` + manifest.Syntax,
		Example: "  zae-limiter load --rate 200 --duration 30s --limit rpm=600 --report load.html\n" +
			"  zae-limiter load --rate 500 --limit rps=1000/s+ahead:500ms\n" +
			"  zae-limiter load --resource gpt-4 --cost tpm=800 --entities 50 --skew 1 --processes 8",
		PreRunE: func(c *cobra.Command, _ []string) error {
			var err error
			p.Table, p.Namespace = a.table, a.namespace
			if c.Flags().Changed("timeout") { // otherwise requests have the limiter's default
				p.Timeout = a.timeout
			}
			if p.Limits, err = parseLimits(c, limits); err != nil {
				return err
			}
			if p.Costs, err = parseCosts(c, costs, p.Limits); err != nil {
				return err
			}
			return p.check(c)
		},
	}, func(c *call) (answer, error) {
		return a.load(c.ctx, p, report)
	})
	f := cmd.Flags()
	f.Float64Var(&p.Rate, "rate", 50, "requests per second in total")
	f.DurationVar(&p.Duration, "duration", 10*time.Second, "how long requests arrive")
	f.StringVar(&p.Arrivals, "arrivals", poisson, "poisson, constant or bursts")
	f.IntVar(&p.Processes, "processes", 4, "limiters that share nothing but the table")
	f.IntVar(&p.Entities, "entities", 1, "number of entities")
	f.StringVar(&p.Prefix, "prefix", "load-", "prefix of the entities' names; a number follows")
	f.Float64Var(&p.Skew, "skew", 0, "how unevenly entities ask: number k in proportion to 1/k^skew; 0: equally")
	f.StringVarP(&p.Resource, "resource", "r", "load", "resource")
	f.StringArrayVar(&limits, "limit", nil, "limit of the requests, may be repeated (default: stored ones)")
	f.StringArrayVar(&costs, "cost", nil, "NAME=TOKENS, may be repeated (default: one of each --limit)")
	f.Uint64Var(&p.Seed, "seed", 1, "seed of arrivals and choices")
	f.StringVar(&report, "report", "", "HTML file for the report with its plots")
	complete(cmd, "arrivals", arrivalKinds)
	return cmd
}

func parseCosts(c *cobra.Command, texts []string, limits []limiter.Limit) (limiter.Costs, error) {
	costs := limiter.Costs{}
	for _, text := range texts {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || name == "" {
			return nil, usage(c, "--cost %q: want NAME=TOKENS, like tpm=800", text)
		}
		costs[name] = n
	}
	if len(costs) == 0 {
		for _, l := range limits {
			costs[l.Name] = 1
		}
	}
	if len(costs) == 0 {
		return nil, usage(c, "what does a request cost? --limit rpm=600 brings a limit along, --cost rpm=1 takes of a "+
			"stored one")
	}
	return costs, nil
}

func (p loadPlan) check(c *cobra.Command) error {
	switch {
	case !(p.Rate > 0 && p.Rate <= 100_000): // NaN fails too
		return usage(c, "--rate %v: want above 0, at most 100000", p.Rate)
	case p.Duration < time.Second || p.Duration > 24*time.Hour:
		return usage(c, "--duration %v: want 1s to 24h", p.Duration)
	case p.Rate*p.Duration.Seconds() > 5_000_000:
		return usage(c, "%.0f requests: want at most five million", p.Rate*p.Duration.Seconds())
	case p.Processes < 1 || p.Processes > 256:
		return usage(c, "--processes %d: want 1 to 256", p.Processes)
	case p.Entities < 1 || p.Entities > 100_000:
		return usage(c, "--entities %d: want 1 to 100000", p.Entities)
	case !(p.Skew >= 0 && p.Skew <= 10):
		return usage(c, "--skew %v: want 0 to 10", p.Skew)
	case !slices.Contains(arrivalKinds, p.Arrivals):
		return usage(c, "--arrivals %s: accepted are %s", p.Arrivals, strings.Join(arrivalKinds, ", "))
	}
	return nil
}

func (a *app) load(ctx context.Context, p loadPlan, file string) (said answer, err error) {
	if err := writable(file); err != nil {
		return said, err
	}
	fleet, err := a.fleet(ctx, p)
	if err != nil {
		return said, err
	}
	result, err := summarize(p, fleet.run(ctx, a.progress))
	if err != nil {
		return said, err
	}
	if result.Offered == 0 {
		return said, fmt.Errorf("no request was made: interrupted, or none arrived within %v", p.Duration)
	}
	said = result.answer()
	if file != "" {
		html, err := result.html()
		if err == nil {
			err = os.WriteFile(file, html, 0o644)
		}
		if said.but = err; err == nil {
			a.say("the report is in %s", file)
		}
	}
	switch {
	case result.TokensOver > 0:
		said.but = answerNo("admitted above what the limits allow: %s", count(result.TokensOver, "tokens"))
	case result.Failed > 0:
		said.but = fmt.Errorf("%d of %s had no decision, the first: %w", result.Failed, count(result.Offered, "requests"),
			result.firstError)
	}
	return said, nil
}

// writable detects a report file that cannot be written before the test starts.
func writable(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func (r loadResult) answer() answer {
	out := rows{head: []string{"figure", "value"}}
	for _, f := range r.figures() {
		out.add(f.Name, f.Value)
	}
	return answer{value: r, rows: out}
}
