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

// app is the state that all commands share: input, output, and the global flags.
type app struct {
	in                io.Reader
	out, errs         io.Writer
	lost              error // the first failed write of output; nil: none
	table, namespace  string
	region, endpoint  string
	principal, format string
	timeout           time.Duration
	listener          func(network, address string) (net.Listener, error)
	progress          *progress
	yes               bool            // do not ask
	interrupted       <-chan struct{} // closed to end the command; nil: never
	memory            memory          // replaces AWS in tests; nil: none
}

// memory is a table in memory with a clock of its own.
type memory interface {
	admin.DynamoDB
	Now() time.Time
}

// formats are the values of --output.
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
		if err := filledFlags(c); err != nil {
			return err
		}
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

// group returns a command that only has subcommands.
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
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(a.region)) // an empty region comes from the environment
	if err != nil {
		return cfg, err
	}
	if a.progress != nil {
		cfg.APIOptions = append(cfg.APIOptions, a.progress.count)
	}
	if cfg.Region == "" {
		return cfg, errNoRegion
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil { // the credentials are cached
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

// database returns a client for the endpoint of the table.
func (a *app) database(ctx context.Context) (*dynamodb.Client, error) {
	cfg, err := a.awsConfig(ctx)
	if err != nil {
		return nil, err
	}
	return a.dynamoDB(cfg), nil
}

// noChecksums is for emulators: most send no checksums, and the SDK would warn about each answer.
func noChecksums(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true }

// loopback reports whether an endpoint is on this machine. A nil endpoint means AWS.
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

// client returns the arguments for opening the table.
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
	if db.Options().BaseEndpoint == nil { // a local DynamoDB has no IAM identities
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
	all  *admin.Table     // for commands on the table or in a namespace
	ns   *admin.Namespace // for commands in a namespace
}

// does makes a command print the answer of f. The line of usage determines the number of arguments,
// unless the command sets Args. PreRunE reports mistakes in flags before any call of AWS.
func (a *app) does(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = countArguments
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		said, err := f(&call{app: a, ctx: cmd.Context(), cmd: cmd, args: args})
		if err == nil && said.value != nil {
			err = a.print(said)
		}
		return cmp.Or(err, said.but)
	}
	return cmd
}

// onTable is does, for commands on the table.
func (a *app) onTable(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	return a.does(cmd, func(c *call) (said answer, err error) {
		if c.all, err = a.open(c.ctx); err != nil {
			return said, err
		}
		return f(c)
	})
}

// inNamespace is does, for commands in a namespace.
func (a *app) inNamespace(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	return a.onTable(cmd, func(c *call) (said answer, err error) {
		if c.ns, err = c.all.Namespace(c.ctx, a.namespace); err != nil {
			return said, err
		}
		return f(c)
	})
}
