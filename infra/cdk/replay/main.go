// Replay lists and delivers again what the functions of a deployed stack gave
// up or set aside: batches in the failed records bucket, and malformed records
// there and in the archive bucket.
//
//	go run ./replay [-stack zae-limiter-go] [-deliver]
//
// Without -deliver it changes nothing and says what a replay would count. With
// it, every object is given to its function, and deleted when all of it came
// through; it may be run again at any time. The exit status is 1 if anything
// was left.
//
// It needs cloudformation:DescribeStacks, lambda:GetFunctionConfiguration and
// InvokeFunction, s3:ListBucket, GetObject and DeleteObject, and
// dynamodb:BatchGetItem.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/zeroae/zae-limiter-go/internal/replay"
)

func main() {
	stack := flag.String("stack", "zae-limiter-go", "name of the stack")
	deliver := flag.Bool("deliver", false, "deliver, and delete what came through")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	left, err := run(ctx, os.Stdout, *stack, *deliver)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || left > 0 {
		os.Exit(1)
	}
}

// run goes through the objects of both buckets and returns how many are left.
func run(ctx context.Context, out io.Writer, stack string, deliver bool) (left int, err error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return 0, fmt.Errorf("aws configuration: %w", err)
	}
	all, err := connect(ctx, cfg, stack)
	if err != nil {
		return 0, err
	}
	objects := 0
	for _, r := range all {
		for key, err := range r.Keys(ctx) {
			if err != nil {
				return left, err
			}
			objects++
			look := r.Inspect
			if deliver {
				look = r.Replay
			}
			result := look(ctx, key)
			if result.Outcome != replay.Done {
				left++
			}
			print(out, result)
		}
	}
	fmt.Fprintf(out, "%d objects, %d left\n", objects, left)
	return left, nil
}

// print writes what is known about an object, in one line and one more for each
// thing that nobody else will tell.
func print(out io.Writer, r replay.Result) {
	fmt.Fprintf(out, "%s: %s", r.Key, r.Outcome)
	if r.Batch.Function != "" {
		fmt.Fprintf(out, ", %d records for the %s, %s", r.Batch.Records, r.Batch.Function, r.Batch.Condition)
	}
	if len(r.Usage.ToCount) > 0 {
		fmt.Fprintf(out, ", to count: %s", text(r.Usage.ToCount))
	}
	if len(r.Usage.Counted) > 0 {
		fmt.Fprintf(out, ", counted before: %s", text(r.Usage.Counted))
	}
	if r.Err != nil && r.Err.Error() != r.Batch.Condition {
		fmt.Fprintf(out, ": %v", r.Err)
	}
	fmt.Fprintln(out)
	for _, b := range r.Usage.Behind {
		fmt.Fprintf(out, "    not counted by a replay, counted already or missing: %s\n", b)
	}
}

func text(tokens map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(tokens)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, tokens[name]))
	}
	return strings.Join(parts, ", ")
}
