// Invoke runs a built function once, or once per sample event, like Lambda, and shows the result:
// the response, the logs, and the written items and objects.
//
//	go -C test/localstack run ./invoke -function aggregator -event ../../events/aggregator-acquire.json
//
// Without -event, all events of the function are run, each on a separate table. It starts dynoxide,
// unless AWS_ENDPOINT_URL_DYNAMODB or AWS_ENDPOINT_URL name another DynamoDB; then TABLE_NAME names
// the table to use, and without it a table is created and removed again. The images of the event
// are stored in the table first, as they are in the real one. Objects go to a local S3. The exit
// status is 1 if a function failed, 2 for invalid arguments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// errArguments is wrapped by errors of the command line.
var errArguments = errors.New("invoke")

// run runs the function on the events and returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, out, problems io.Writer) int {
	r, events, err := parse(args, getenv, problems)
	if err == nil {
		r.out = out
		err = r.all(ctx, events)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errArguments):
		fmt.Fprintln(problems, err)
		return 2
	case err != nil:
		fmt.Fprintln(problems, "invoke:", err)
		return 1
	}
	return 0
}

// event is a payload for an invocation.
type event struct {
	path    string
	payload []byte
}

// parse reads the command line. All events are read before anything starts.
func parse(args []string, getenv func(string) string, problems io.Writer) (*runner, []event, error) {
	functions := []string{stack.Aggregator, stack.Archiver}
	flags := flag.NewFlagSet("invoke", flag.ContinueOnError)
	flags.SetOutput(problems)
	r := &runner{table: getenv("TABLE_NAME")}
	flags.StringVar(&r.function, "function", "", "the function to run: "+strings.Join(functions, " or "))
	file := flags.String("event", "", "file with the payload; default: all events/<function>-*.json")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("%w: %w", errArguments, err)
	}
	if flags.NArg() > 0 {
		return nil, nil, fmt.Errorf("%w: argument %q, accepted are -function and -event", errArguments, flags.Arg(0))
	}
	if !slices.Contains(functions, r.function) {
		return nil, nil, fmt.Errorf("%w: -function is %q, accepted are %s", errArguments, r.function,
			strings.Join(functions, " and "))
	}
	if r.table != "" && !engine.ExternalAsked() {
		return nil, nil, fmt.Errorf("%w: TABLE_NAME is %q, accepted only with AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_DYNAMODB",
			errArguments, r.table)
	}
	root := filepath.Join(engine.Root(), "..", "..")
	events, err := read(root, r.function, *file)
	return r, events, err
}

func read(root, function, file string) (events []event, err error) {
	paths := []string{file}
	if file == "" {
		pattern := filepath.Join(root, "events", function+"-*.json")
		if paths, err = filepath.Glob(pattern); err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("no events found at %s: %w", pattern, errors.Join(err, os.ErrNotExist))
		}
	}
	for _, path := range paths {
		payload, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%w: -event: %w", errArguments, err)
		}
		events = append(events, event{path, payload})
	}
	return events, nil
}
