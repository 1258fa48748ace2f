package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

func tableCommand(a *app) *cobra.Command {
	const about = "The table has no functions on its stream: there is no usage and no archive. The stack has\n" +
		"them (docs/operations.md). For a local DynamoDB, and where limits are all that is needed."
	return group("table", "the table itself",
		tableDo(a, "create", "create the table, or check the one that is there", about,
			func(ctx context.Context, db limitertable.DynamoDB) (limitertable.Description, error) {
				return limitertable.Create(ctx, db, a.table)
			}),
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
			}))
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
