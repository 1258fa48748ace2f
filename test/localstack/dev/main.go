// Dev starts a local DynamoDB with a table and a namespace to develop against,
// prints the environment that finds it, and runs until it is interrupted. What is
// in it is gone then.
//
//	go run ./dev
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

const table = "zae-limiter"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	e, err := engine.Start(ctx, engine.Dynoxide)
	if err != nil {
		return err
	}
	defer e.Stop()
	db := e.DynamoDB()
	if _, err := limitertable.Create(ctx, db, table); err != nil {
		return err
	}
	if _, err := limiter.Open(ctx, db, table, &limiter.Options{Register: true}); err != nil {
		return err
	}
	fmt.Fprintf(out, "# Table %s with the namespace default, until Ctrl-C. In another shell:\n", table)
	for _, variable := range e.Env() {
		fmt.Fprintln(out, "export", variable)
	}
	<-ctx.Done()
	return nil
}
