// Package engine starts DynamoDB emulators and hands out clients for them.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/internal/emulator"
)

// Kind names an emulator.
type Kind = emulator.Kind

// The emulators this package knows.
const (
	Dynoxide           = emulator.Dynoxide // the default
	DynamoDBLocal      = emulator.DynamoDBLocal
	External      Kind = "external" // the server at AWS_ENDPOINT_URL_DYNAMODB or AWS_ENDPOINT_URL
)

// Credentials and region that every started engine and every child accepts.
const (
	Region          = emulator.Region
	AccessKeyID     = emulator.Key
	SecretAccessKey = emulator.Key
)

// Engine is a running DynamoDB. It is safe for concurrent use.
type Engine struct {
	Kind     Kind
	Endpoint string // http://127.0.0.1:port, or the value from the environment for External

	cfg        aws.Config
	streamsURL string
	server     *emulator.Server // nil for External
	StartedIn  time.Duration
}

// Start starts the emulator of the given kind ("" means Dynoxide) on a free port of 127.0.0.1, and
// returns when it answers. A started engine keeps everything in memory and ends with this process.
// If the emulator is not installed, the error names the make target to run.
func Start(ctx context.Context, kind Kind) (*Engine, error) {
	if kind == External {
		return external(ctx)
	}
	s, err := emulator.Start(ctx, cmp.Or(kind, Dynoxide), Root(), 0)
	if errors.Is(err, emulator.ErrNotInstalled) {
		err = fmt.Errorf("%w: run `make emulators` (npm ci --prefix test/localstack)", err)
	}
	if err != nil {
		return nil, err
	}
	return &Engine{Kind: s.Kind, Endpoint: s.Endpoint, cfg: s.Config(), server: s, StartedIn: s.StartedIn}, nil
}

// Root returns the folder test/localstack of this checkout, in which npm ci has installed the
// emulators. Tests find files of the kit with it.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		return filepath.Dir(filepath.Dir(file))
	}
	// Built with -trimpath: search upwards from the working directory.
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "localstack", "package.json")); err == nil {
			break
		}
	}
	return filepath.Join(dir, "test", "localstack")
}

// Stop ends a started engine and drops its data. It does nothing for External
// and may be called again.
func (e *Engine) Stop() {
	if e.server != nil {
		e.server.Stop()
	}
}

// At returns the engine behind a proxy at endpoint: clients and Env use the proxy. Stop still ends
// the engine behind it.
func (e *Engine) At(endpoint string) *Engine {
	through := *e
	through.Endpoint = endpoint
	through.streamsURL = endpoint
	through.cfg = e.cfg.Copy()
	through.cfg.BaseEndpoint = aws.String(endpoint)
	return &through
}

// DynamoDB returns a new client with the SDK's defaults and opts applied.
func (e *Engine) DynamoDB(opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.NewFromConfig(e.cfg, opts...)
}

// Items reads a whole table.
func (e *Engine) Items(ctx context.Context, table string) (all []map[string]types.AttributeValue, err error) {
	in := &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)}
	pages := dynamodb.NewScanPaginator(e.DynamoDB(), in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("scan table %q: %w", table, err)
		}
		all = append(all, page.Items...)
	}
	return all, nil
}

// Streams returns a new client for the engine's streams.
func (e *Engine) Streams() *dynamodbstreams.Client {
	return dynamodbstreams.NewFromConfig(e.cfg, func(o *dynamodbstreams.Options) {
		if e.streamsURL != "" {
			o.BaseEndpoint = aws.String(e.streamsURL)
		}
		e.Kind.Typed(o)
	})
}

// Env returns the variables with which a child process reaches the engine through the SDK.
func (e *Engine) Env() []string {
	env := []string{"AWS_ENDPOINT_URL_DYNAMODB=" + e.Endpoint, "AWS_EC2_METADATA_DISABLED=true"}
	if e.Kind != External {
		return append(env, "AWS_REGION="+Region, "AWS_ACCESS_KEY_ID="+AccessKeyID, "AWS_SECRET_ACCESS_KEY="+SecretAccessKey)
	}
	env = append(env, "AWS_REGION="+e.cfg.Region)
	for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// asked returns the endpoint of the DynamoDB that the environment names, or "".
func asked() string {
	return cmp.Or(os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"), os.Getenv("AWS_ENDPOINT_URL"))
}

func external(ctx context.Context) (*Engine, error) {
	endpoint := asked()
	if endpoint == "" {
		return nil, errors.New("emulator \"external\": neither AWS_ENDPOINT_URL_DYNAMODB nor AWS_ENDPOINT_URL is set")
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithDefaultRegion(Region))
	if err != nil {
		return nil, fmt.Errorf("emulator \"external\": %w", err)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		cfg.Credentials = credentials.NewStaticCredentialsProvider(AccessKeyID, SecretAccessKey, "")
	}
	cfg.BaseEndpoint = aws.String(endpoint)
	e := &Engine{Kind: External, Endpoint: endpoint, cfg: cfg,
		streamsURL: cmp.Or(os.Getenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS"), endpoint)}
	if _, err := e.DynamoDB().ListTables(ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(1)}); err != nil {
		return nil, fmt.Errorf("emulator \"external\" at %s: %w", endpoint, err)
	}
	return e, nil
}
