package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

func tableCommand(a *app) *cobra.Command {
	const about = "Create the table without functions: limits work, but there is no usage and no archive.\n" +
		"That is enough for a local DynamoDB. The stack has both (docs/deploying.md)."
	return group("table", "the DynamoDB table",
		tableCreate(a, about),
		a.does(&cobra.Command{Use: "describe", Short: "show the table"}, tableAnswer(a.describe)),
		a.does(&cobra.Command{
			Use: "check", Short: "check the table and its stored limits; exit status 3 if there is a problem",
		}, tableAnswer(func(c *call) (limitertable.Description, error) {
			d, err := a.describe(c)
			if err != nil {
				return d, err
			}
			return d, errors.Join(limitertable.Deployed().Check(d), a.refusedLimits(c.ctx))
		})),
		tableRepair(a), tableTemplate(a), tablePolicy(a))
}

func tableRepair(a *app) *cobra.Command {
	const about = `Switch on what AWS does not restore with a table: deletion protection, time to live,
the stream, and point-in-time recovery. What is on stays as it is, so it may be repeated.
A table with other keys, indexes or another stream is left alone. It prints the ARN of the
stream that the functions must read (docs/operations.md).

It needs dynamodb:DescribeTable, DescribeTimeToLive, DescribeContinuousBackups, UpdateTable,
UpdateTimeToLive and UpdateContinuousBackups.`
	return a.does(&cobra.Command{
		Use: "repair", Short: "switch on what a restored table lacks", Long: about,
	}, func(c *call) (answer, error) {
		db, err := a.database(c.ctx)
		if err != nil {
			return answer{}, err
		}
		d, done, err := limitertable.Repair(c.ctx, db, a.table)
		if err != nil && done == (limitertable.Repaired{}) {
			return answer{}, err
		}
		r := rows{head: []string{"part", "state"}}
		repaired := []string{}
		for _, p := range []struct {
			name string
			now  bool
		}{{"deletion protection", done.Protection}, {"time to live", done.TTL}, {"stream", done.Stream},
			{"point-in-time recovery", done.Recovery}} {
			state := "was on"
			if err != nil {
				state = "not looked at, or not switched on"
			}
			if p.now {
				state, repaired = "switched on", append(repaired, p.name)
			}
			r.add(p.name, state)
		}
		r.add("stream ARN", d.StreamARN)
		return answer{rows: r, value: map[string]any{
			"table": d.Name, "stream_arn": d.StreamARN, "repaired": repaired}, but: err}, nil
	})
}

func tableCreate(a *app, about string) *cobra.Command {
	var units limitertable.Capacity
	cmd := a.does(&cobra.Command{
		Use: "create", Short: "create the table, or check an existing one", Long: about,
	}, tableAnswer(func(c *call) (d limitertable.Description, err error) {
		spec := limitertable.Deployed()
		if units != (limitertable.Capacity{}) {
			spec, err = spec.Provisioned(units)
		}
		if err != nil {
			return d, err
		}
		db, err := a.database(c.ctx)
		if err != nil {
			return d, err
		}
		return spec.Create(c.ctx, db, a.table)
	}))
	f := cmd.Flags()
	f.Int64Var(&units.ReadUnits, "read-units", 0, "read units to provision, for the table and each index; 0: on demand")
	f.Int64Var(&units.WriteUnits, "write-units", 0, "write units to provision; nothing scales them (docs/cost.md)")
	return cmd
}

func tableTemplate(a *app) *cobra.Command {
	templates := map[string]string{
		"cloudformation": limitertable.CloudFormation(), "terraform": limitertable.Terraform(),
	}
	return a.does(&cobra.Command{
		Use: "template cloudformation|terraform", Short: "print a template of the table and the policies of applications",
		ValidArgs: []string{"cloudformation", "terraform"},
		Example: "  zae-limiter table template cloudformation > limiter.json\n" +
			"  zae-limiter table template terraform > limiter/main.tf",
	}, func(c *call) (answer, error) {
		_, err := io.WriteString(a, templates[c.args[0]])
		return answer{}, err
	})
}

func tablePolicy(a *app) *cobra.Command {
	var arn string
	names := []string{"acquire", "admin", "read", "namespace-acquire", "namespace-admin", "namespace-read"}
	cmd := a.does(&cobra.Command{
		Use: "policy " + strings.Join(names, "|"), Short: "print the IAM policy of an application",
		ValidArgs: names,
	}, func(c *call) (answer, error) {
		if arn == "" {
			d, err := a.describe(c)
			if err != nil {
				return answer{}, err
			}
			arn = d.ARN
		}
		all, err := limitertable.Policies(arn)
		if err != nil {
			return answer{}, err
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(all[c.args[0]]), "", "  "); err != nil {
			return answer{}, err
		}
		_, err = fmt.Fprintln(a, indented.String())
		return answer{}, err
	})
	cmd.Flags().StringVar(&arn, "arn", "", "ARN of the table (default: read from the table, which must exist)")
	return cmd
}

func (a *app) describe(c *call) (limitertable.Description, error) {
	db, err := a.database(c.ctx)
	if err != nil {
		return limitertable.Description{}, err
	}
	return limitertable.Describe(c.ctx, db, a.table)
}

func tableAnswer(f func(c *call) (limitertable.Description, error)) func(c *call) (answer, error) {
	return func(c *call) (answer, error) {
		d, err := f(c)
		return single(map[string]any{
			"table": d.Name, "arn": d.ARN, "status": d.Status, "billing": d.Spec.BillingMode,
			"indexes": len(d.Spec.GlobalIndexes), "stream": d.Spec.StreamViewType, "stream_arn": d.StreamARN,
			"ttl_attribute": d.Spec.TTLAttribute, "items": d.Items, "bytes": d.Bytes,
		}, []string{"table", "status", "billing", "indexes", "stream", "expires by", "items", "bytes"},
			d.Name, d.Status, d.Spec.BillingMode, len(d.Spec.GlobalIndexes), d.Spec.StreamViewType, d.Spec.TTLAttribute,
			d.Items, d.Bytes), err
	}
}
