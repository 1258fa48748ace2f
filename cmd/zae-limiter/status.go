package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

// part is one part of the limiter that has to work.
type part struct {
	Part, Name, State string
	OK                bool
	Detail            string
	Figures           map[string]any
}

// unknownPart is a part that cannot be checked.
func unknownPart(kind, name string, err error) part {
	return part{Part: kind, Name: name, State: "unknown", Detail: err.Error()}
}

func statusCommand(a *app) *cobra.Command {
	return a.does(&cobra.Command{
		Use: "status", Short: "show table, stream, functions and their lag; exit status 3 if there is a problem",
		Long: `Show the parts of the limiter and whether they work: the table, its version and
namespaces, stored limits that are refused, its stream, and on AWS every function that
reads the stream, with the state of its mapping and the lag, errors and throttles of the
last 15 minutes. The exit status is 3 if there is a problem. A table without functions
limits requests, and counts no usage; that is not a problem.

It needs the read policy of the stack, for the stream dynamodb:DescribeStream, and for
the functions lambda:ListEventSourceMappings and cloudwatch:GetMetricStatistics.`,
	}, func(c *call) (answer, error) {
		parts, err := a.status(c.ctx)
		return partsAnswer(parts), err
	})
}

func partsAnswer(parts []part) answer {
	r := rows{head: []string{"part", "name", "state", "detail"}}
	var bad []string
	for i := range parts {
		parts[i].Detail = plain(parts[i].Detail)
		p := parts[i]
		r.add(p.Part, p.Name, p.State, p.Detail)
		if !p.OK {
			bad = append(bad, p.Part+" "+p.Name)
		}
	}
	said := answer{value: map[string]any{"ok": len(bad) == 0, "parts": parts}, rows: r}
	if len(bad) > 0 {
		said.but = answerNo("not right: %s", strings.Join(bad, ", "))
	}
	return said
}

// status checks all parts. It returns an error only if the table cannot be described.
func (a *app) status(ctx context.Context) ([]part, error) {
	cfg, err := a.awsConfig(ctx)
	if err != nil {
		return nil, err
	}
	d, err := limitertable.Describe(ctx, a.dynamoDB(cfg), a.table)
	if err != nil {
		return nil, err
	}
	parts := []part{tablePart(d)}
	parts = append(parts, a.contentParts(ctx)...)
	if d.StreamARN == "" {
		return append(parts, part{Part: "stream", Name: "none", State: "off", Detail: "no usage, no archive"}), nil
	}
	parts = append(parts, a.streamPart(ctx, cfg, d))
	return append(parts, a.functionParts(ctx, cfg, d.StreamARN)...), nil
}

func tablePart(d limitertable.Description) part {
	p := part{
		Part: "table", Name: d.Name, State: string(d.Status), OK: true,
		Detail: fmt.Sprintf("%s, %s, %s, as it must be", d.Spec.BillingMode, count(d.Items, "items"),
			count(d.Bytes, "bytes")),
		Figures: map[string]any{
			"arn": d.ARN, "billing": d.Spec.BillingMode, "items": d.Items, "bytes": d.Bytes,
		},
	}
	if len(d.Replicas) > 0 {
		p.Detail += ", replicas in " + strings.Join(d.Replicas, ", ") + ": charge in one region only"
		p.Figures["replicas"] = d.Replicas
	}
	if err := limitertable.Deployed().Check(d); err != nil {
		p.OK, p.Detail = false, err.Error()
	}
	if p.State != "ACTIVE" {
		p.OK = false
	}
	return p
}

// contentParts are the version of the table, its namespaces and their stored limits.
func (a *app) contentParts(ctx context.Context) []part {
	t, err := a.open(ctx)
	if err != nil {
		return []part{{Part: "version", Name: a.table, State: "unusable", Detail: err.Error()}}
	}
	version := part{Part: "version", Name: "schema", State: "none", OK: true, Detail: "nobody has opened the table yet"}
	v, err := t.Version(ctx)
	switch {
	case err != nil && !isNotFound(err):
		version.OK, version.Detail = false, err.Error()
	case err == nil && v.Schema != "":
		version.State, version.Detail = v.Schema, "clients from "+v.ClientMin
		version.Figures = map[string]any{"schema": v.Schema, "client_min": v.ClientMin, "lambda": v.Lambda}
		if v.Lambda == "" {
			version.Detail += "; names no aggregator, so Python 0.17 refuses top-ups and more (docs/migrating.md)"
		}
	}
	var names []string
	all, err := collect(t.Namespaces(ctx), 0)
	for _, n := range all {
		names = append(names, n.Name)
	}
	spaces := part{Part: "namespaces", Name: fmt.Sprint(len(names)), State: "active", OK: true,
		Detail: strings.Join(names, ", "), Figures: map[string]any{"names": names}}
	switch {
	case err != nil:
		spaces.OK, spaces.State, spaces.Detail = false, "unknown", err.Error()
	case len(names) == 0:
		spaces.State, spaces.Detail = "none", "zae-limiter namespace register "+a.namespace+" makes one"
	}
	parts := []part{version, spaces}
	if len(names) > 0 {
		parts = append(parts, limitsPart(ctx, t, names))
	}
	return parts
}
