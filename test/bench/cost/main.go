// Cost prints the consumption of every path next to its budget (see package bench). The environment
// variable ENGINE selects the emulator: dynoxide (default) or dynamodb-local. The exit status is 1
// if a path is off its budget.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/zeroae/zae-limiter-go/test/bench"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

func main() {
	if err := run(context.Background(), engine.Kind(os.Getenv("ENGINE"))); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kind engine.Kind) error {
	e, err := engine.Start(ctx, kind)
	if err != nil {
		return err
	}
	defer e.Stop()
	t, err := bench.Measure(ctx, e)
	if err != nil {
		return err
	}
	t.Print(os.Stdout)
	for _, r := range t.Rows {
		if !r.OK() {
			return errors.New(r.String())
		}
	}
	return nil
}
