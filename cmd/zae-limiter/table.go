package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

func tableCommand(a *app) *cobra.Command {
	const about = "The table has no functions on its stream: there is no usage and no archive. The stack has\n" +
		"them (docs/table.md). For a local DynamoDB, and where limits are all that is needed."
	return group("table", "the table itself",
		tableCreate(a, about),
		tableDo(a, "describe", "show the table", "",
			func(ctx context.Context, db limitertable.DynamoDB) (limitertable.Description, error) {
				return limitertable.Describe(ctx, db, a.table)
			}),
		tableDo(a, "check", "check that the table is as it must be; exit status 3 if not", "",
			func(ctx context.Context, db limitertable.DynamoDB) (limitertable.Description, error) {
				d, err := limitertable.Describe(ctx, db, a.table)
				if err != nil {
					return d, err
				}
				return d, limitertable.Deployed().Check(d)
			}),
		tableTemplate(a), tablePolicy(a))
}

func tableCreate(a *app, about string) *cobra.Command {
	var c limitertable.Capacity
	cmd := tableDo(a, "create", "create the table, or check the one that is there", about,
		func(ctx context.Context, db limitertable.DynamoDB) (limitertable.Description, error) {
			spec, err := limitertable.Deployed(), error(nil)
			if c != (limitertable.Capacity{}) {
				spec, err = spec.Provisioned(c)
			}
			if err != nil {
				return limitertable.Description{}, err
			}
			return spec.Create(ctx, db, a.table)
		})
	cmd.Flags().Int64Var(&c.ReadUnits, "read-units", 0, "provision so many, of the table and of each index; 0: on demand")
	cmd.Flags().Int64Var(&c.WriteUnits, "write-units", 0, "provision so many; nothing scales them (docs/cost.md)")
	return cmd
}

func tableTemplate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "template cloudformation|terraform", Short: "print what deploys the table and the policies of applications",
		Args: args(1, 1), ValidArgs: []string{"cloudformation", "terraform"},
		Example: "  zae-limiter table template cloudformation > limiter.json\n" +
			"  zae-limiter table template terraform > limiter/main.tf",
		RunE: func(c *cobra.Command, kinds []string) error {
			text, ok := map[string]string{
				"cloudformation": limitertable.CloudFormation(), "terraform": limitertable.Terraform(),
			}[kinds[0]]
			if !ok {
				return usage(c, "template %q: accepted are cloudformation and terraform", kinds[0])
			}
			_, err := io.WriteString(a.out, text)
			return err
		},
	}
}

func tablePolicy(a *app) *cobra.Command {
	var arn string
	var names []string
	for _, p := range limitertable.Policies() {
		names = append(names, string(p))
	}
	cmd := &cobra.Command{
		Use: "policy " + strings.Join(names, "|"), Short: "print the IAM policy of an application",
		Args: args(1, 1), ValidArgs: names,
		RunE: func(c *cobra.Command, which []string) error {
			if !slices.Contains(names, which[0]) {
				return usage(c, "policy %q: accepted are %s", which[0], strings.Join(names, ", "))
			}
			if arn == "" {
				cfg, err := a.awsConfig(c.Context())
				if err != nil {
					return err
				}
				d, err := limitertable.Describe(c.Context(), a.dynamoDB(cfg), a.table)
				if err != nil {
					return a.where(err)
				}
				arn = d.ARN
			}
			text, err := limitertable.PolicyDocument(limitertable.Policy(which[0]), arn)
			if err != nil {
				return err
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, []byte(text), "", "  "); err != nil {
				return err
			}
			fmt.Fprintln(a.out, indented.String())
			return nil
		},
	}
	cmd.Flags().StringVar(&arn, "arn", "", "ARN of the table (default: that of the table, which must be there)")
	return cmd
}

func tableDo(
	a *app, name, short, long string,
	f func(context.Context, limitertable.DynamoDB) (limitertable.Description, error),
) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long,
		Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.awsConfig(c.Context())
			if err != nil {
				return err
			}
			d, err := f(c.Context(), a.dynamoDB(cfg))
			if err != nil {
				return a.where(err)
			}
			return a.printTable(d)
		},
	}
}

func (a *app) printTable(d limitertable.Description) error {
	r := rows{head: []string{"table", "status", "billing", "indexes", "stream", "expires by", "items", "bytes"}}
	r.add(d.Name, d.Status, d.Spec.BillingMode, len(d.Spec.GlobalIndexes), d.Spec.StreamViewType, d.Spec.TTLAttribute,
		d.Items, d.Bytes)
	return a.print(map[string]any{
		"table": d.Name, "arn": d.ARN, "status": d.Status, "billing": d.Spec.BillingMode,
		"indexes": len(d.Spec.GlobalIndexes), "stream": d.Spec.StreamViewType, "stream_arn": d.StreamARN,
		"ttl_attribute": d.Spec.TTLAttribute, "items": d.Items, "bytes": d.Bytes,
	}, r)
}
