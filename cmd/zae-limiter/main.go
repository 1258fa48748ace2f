// Zae-limiter manages the limits, entities and namespaces of a limiter's table. It shows buckets,
// usage and the audit trail, and whether the stack works. It starts a local table, loads tables
// with requests, serves Envoy, and replays batches that were given up.
//
//	zae-limiter table create
//	zae-limiter namespace register default
//	zae-limiter limits set -r gpt-4 rpm=600 tpm=40000
//	zae-limiter peek acme gpt-4
//	zae-limiter dev -- go test ./...
//	zae-limiter serve --config /etc/ratelimit
//	zae-limiter load --rate 200 --limit rpm=600 --report load.html
//
// It finds DynamoDB as the AWS SDK does (AWS_REGION, AWS_PROFILE,
// AWS_ENDPOINT_URL_DYNAMODB, ...), the table in ZAEL_STACK and the namespace in
// ZAEL_NAMESPACE, like the Python client. Exit status: 0 done, 1 failed, 2 used
// wrongly, 3 the answer is no (a plan with changes, a table that is not as it
// must be, a bucket without limits). With -o json every result and every error is
// JSON: results on the standard output, {"error", "advice", "status"} on the
// standard error.
package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr, listener: net.Listen}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
