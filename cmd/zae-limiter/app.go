package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
)

// app is what all commands share: where they read and write, and the flags that
// every one of them has.
type app struct {
	in                io.Reader
	out, errs         io.Writer
	lost              error // why something printed is lost; nil: nothing is
	table, namespace  string
	region, endpoint  string
	principal, format string
	timeout           time.Duration
	progress          *progress
	yes               bool            // no question is asked
	interrupted       <-chan struct{} // closed when the command is to end; nil: never
	memory            memory          // in place of AWS, in tests; nil: none
}

// memory is a table in memory with a clock of its own.
type memory interface {
	admin.DynamoDB
	Now() time.Time
}

// formats are what --output accepts.
var formats = []string{"table", "csv", "json"}

// run runs a command, prints its error, and returns its exit status.
func (a *app) run(ctx context.Context, args []string) int {
	cmd := root(a)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	a.progress.end()
	if err = cmp.Or(a.lost, err); err != nil {
		a.complain(err)
	}
	return status(err)
}

func root(a *app) *cobra.Command {
	cmd := group("zae-limiter", "manage the limits, entities and namespaces of a limiter's table",
		limitsCommand(a), cascadeCommand(a), policyCommand(a), planCommand(a), applyCommand(a),
		entityCommand(a), namespaceCommand(a),
		peekCommand(a), resetCommand(a), creditCommand(a), raiseCommand(a), usageCommand(a), topCommand(a),
		thresholdsCommand(a),
		auditCommand(a), tableCommand(a), statusCommand(a), replayCommand(a), devCommand(a), loadCommand(a),
		costCommand(a), serveCommand(a), dashboardCommand(a), versionCommand(a))
	cmd.AddCommand(accessCommands(a)...)
	cmd.Long = cmd.Short + `.

The exit status is 0 if the command succeeded, 1 if it failed, and 2 if its arguments
were wrong. It is 3 if the command succeeded and the answer is no: plan found changes,
status or a check found a problem, a bucket has no limits, replay left something,
or load saw more admitted than allowed.`
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(a)
	cmd.SetErr(a.errs)
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, "%s", wrongFlag(err)) })
	f := cmd.PersistentFlags()
	f.StringVarP(&a.table, "table", "t", cmp.Or(os.Getenv("ZAEL_STACK"), "zae-limiter"), "table (ZAEL_STACK)")
	f.StringVarP(&a.namespace, "namespace", "n", cmp.Or(os.Getenv("ZAEL_NAMESPACE"), "default"),
		"namespace (ZAEL_NAMESPACE)")
	f.StringVar(&a.region, "region", "", "AWS region (AWS_REGION)")
	f.StringVar(&a.endpoint, "endpoint-url", "", "address of DynamoDB (AWS_ENDPOINT_URL_DYNAMODB)")
	f.StringVar(&a.principal, "principal", "", "author of changes, for the audit trail (default: your AWS identity)")
	f.StringVarP(&a.format, "output", "o", "table", "table, csv or json")
	f.DurationVar(&a.timeout, "timeout", 10*time.Second, "for each request to DynamoDB")
	cmd.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains(formats, a.format) {
			return usage(c, "-o %s: accepted are table, csv and json", a.format)
		}
		a.progress, a.interrupted = startProgress(a.errs, terminal(a.errs)), c.Context().Done()
		return nil
	}
	complete(cmd, "output", formats)
	a.offerNames(cmd)
	a.completesAnyBash(cmd)
	return cmd
}

// group returns a command that only has others.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := ""
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				text = "; do you mean " + strings.Join(near, " or ") + "?"
			}
			return usage(c, "there is no command %q%s", args[0], text)
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(commands...)
	return cmd
}

func (a *app) awsConfig(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(a.region)) // empty: from the environment
	if err != nil {
		return cfg, err
	}
	if a.progress != nil {
		cfg.APIOptions = append(cfg.APIOptions, a.progress.count)
	}
	if cfg.Region == "" {
		return cfg, errNoRegion
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil { // they are kept
		return cfg, fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	return cfg, nil
}

var (
	errNoRegion      = errors.New("no AWS region is set")
	errNoCredentials = errors.New("no AWS credentials")
)

func (a *app) dynamoDB(cfg aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if a.endpoint != "" {
			o.BaseEndpoint = aws.String(a.endpoint)
		}
		if o.BaseEndpoint != nil {
			noChecksums(o)
		}
	})
}

// database returns a client for where the table is.
func (a *app) database(ctx context.Context) (*dynamodb.Client, error) {
	cfg, err := a.awsConfig(ctx)
	if err != nil {
		return nil, err
	}
	return a.dynamoDB(cfg), nil
}

// noChecksums is for emulators that send none, about which the SDK would complain
// with every answer.
func noChecksums(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true }

// loopback reports whether an endpoint is this machine; nil is AWS itself.
func loopback(endpoint *string) bool {
	u, err := url.Parse(aws.ToString(endpoint))
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

func (a *app) open(ctx context.Context) (*admin.Table, error) {
	db, opts, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	return admin.Open(ctx, db, a.table, opts)
}

// client returns what the table is opened with.
func (a *app) client(ctx context.Context) (admin.DynamoDB, *admin.Options, error) {
	opts := &admin.Options{Timeout: a.timeout, Principal: a.principal}
	if a.memory != nil {
		opts.Now = a.memory.Now
		return a.memory, opts, nil
	}
	cfg, err := a.awsConfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	db := a.dynamoDB(cfg)
	if db.Options().BaseEndpoint == nil { // a local DynamoDB knows nobody
		opts.Caller = func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			out, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil)
			if err != nil {
				return "", err
			}
			return aws.ToString(out.Arn), nil
		}
	}
	return db, opts, nil
}

// call is one run of a command.
type call struct {
	*app
	ctx  context.Context
	cmd  *cobra.Command
	args []string
	all  *admin.Table     // of commands on the table and in a namespace
	ns   *admin.Namespace // of commands in a namespace
}

// does has a command print what f answers. Its arguments are counted by its line of usage, unless it says
// otherwise. PreRunE reports mistakes in flags, before any call of AWS.
func (a *app) does(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = countArguments
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		said, err := f(&call{app: a, ctx: cmd.Context(), cmd: cmd, args: args})
		if err == nil && said.value != nil {
			err = a.print(said)
		}
		return a.where(cmp.Or(err, said.but))
	}
	return cmd
}

// onTable is does for commands on the table.
func (a *app) onTable(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	return a.does(cmd, func(c *call) (said answer, err error) {
		if c.all, err = a.open(c.ctx); err != nil {
			return said, err
		}
		return f(c)
	})
}

// inNamespace is does for commands in a namespace.
func (a *app) inNamespace(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	return a.onTable(cmd, func(c *call) (said answer, err error) {
		if c.ns, err = c.all.Namespace(c.ctx, a.namespace); err != nil {
			return said, err
		}
		return f(c)
	})
}

// where adds to an error what the advice on it needs.
func (a *app) where(err error) error {
	if err == nil {
		return nil
	}
	return &placed{error: err, table: a.table, namespace: a.namespace}
}
