package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

// checkExisting refuses an existing table whose stream, key or indexes the functions cannot work
// with, and warns of its risks. If it cannot read the table, the setup function checks it during
// deployment.
func checkExisting(ctx context.Context, opts options) error {
	if opts.ExistingStreamARN == "" {
		return nil
	}
	cfg, err := configuration(ctx)
	if err != nil {
		return nil
	}
	is, err := limitertable.Describe(ctx, dynamodb.NewFromConfig(cfg), opts.tableName())
	if err != nil {
		return nil
	}
	if !is.Protected {
		fmt.Fprintf(os.Stderr, "table %s has no deletion protection\n", is.Name)
	}
	if len(is.Replicas) > 0 {
		fmt.Fprintf(os.Stderr, "table %s has replicas in %s: charge in one region only (docs/deploying.md)\n", is.Name,
			strings.Join(is.Replicas, ", "))
	}
	must := limitertable.Deployed()
	must.TTLAttribute = is.Spec.TTLAttribute // without it, items are only kept longer
	if err := must.Check(is); err != nil {
		return err
	}
	if is.StreamARN != opts.ExistingStreamARN {
		return fmt.Errorf("context %sexistingStreamArn=%s: table %s writes to %s", contextPrefix, opts.ExistingStreamARN,
			is.Name, is.StreamARN)
	}
	return nil
}
