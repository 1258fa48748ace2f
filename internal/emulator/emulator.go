// Package emulator starts local DynamoDB emulators for the tests, the benchmarks, the demo and the
// tool's command dev.
package emulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/internal/childproc"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Region and Key are the region, access key and secret for an emulator, which accepts any.
const (
	Region = "us-east-1"
	Key    = "emulator"
)

// Limit bounds one attempt to start, and other waits that a working emulator never reaches. A
// loaded machine may need seconds for Java.
const Limit = 60 * time.Second

// Server is a running emulator. It is safe for concurrent use.
type Server struct {
	Kind      Kind
	Endpoint  string // http://127.0.0.1:port
	StartedIn time.Duration

	proc   *childproc.Proc
	output *tail
}

// Start starts the emulator of a kind that is installed in a folder, and returns when it answers.
// It keeps everything in memory and ends with this process. Port zero means a free port. The error
// is [ErrNotInstalled] if the emulator, or the Java that it needs, is missing.
func Start(ctx context.Context, kind Kind, folder string, port int) (*Server, error) {
	file, err := Find(kind, folder)
	if err != nil {
		return nil, err
	}
	if port != 0 {
		return startAt(ctx, kind, file, port)
	}
	// Another process may take a free port before the emulator does.
	for try := 1; ; try++ {
		if port, err = freePort(); err != nil {
			return nil, fmt.Errorf("emulator %q: %w", kind, err)
		}
		s, err := startAt(ctx, kind, file, port)
		taken := !errors.Is(err, ErrNotInstalled) && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if err == nil || !taken || try == 10 {
			return s, err
		}
	}
}

func startAt(ctx context.Context, kind Kind, file string, port int) (*Server, error) {
	cmd, err := command(kind, file, port)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	s := &Server{Kind: kind, Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), output: new(tail)}
	cmd.Stdout, cmd.Stderr, cmd.Env = s.output, s.output, childproc.Env()
	if s.proc, err = childproc.Start(cmd); err != nil {
		return nil, fmt.Errorf("emulator %q: %w", kind, err)
	}
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("emulator %q at %s: %w; its output ends: %s", kind, s.Endpoint, err, s.output)
	}
	s.StartedIn = time.Since(begin)
	return s, nil
}

// await returns when the emulator lists its tables and there are none: existing tables would mean
// that another server answers at this port.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	db := dynamodb.NewFromConfig(s.Config(), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	for {
		out, err := db.ListTables(ctx, &dynamodb.ListTablesInput{})
		select {
		case <-s.proc.Done():
			return fmt.Errorf("ended at once: %w", errors.Join(s.proc.Err(), err))
		default:
		}
		if err == nil && len(out.TableNames) > 0 {
			return errors.New("another server answers there")
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", errors.Join(ctx.Err(), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop ends the emulator and drops its data. It may be called again.
func (s *Server) Stop() { s.proc.Kill() }

// Done is closed when the emulator has ended.
func (s *Server) Done() <-chan struct{} { return s.proc.Done() }

// Pid returns its process id.
func (s *Server) Pid() int { return s.proc.Pid() }

// Output returns the end of its output.
func (s *Server) Output() string { return s.output.String() }

// Config returns the configuration of clients, which share their connections.
func (s *Server) Config() aws.Config {
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String(s.Endpoint),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: Key, SecretAccessKey: Key}, nil
		}),
		HTTPClient: store.Whole{Client: &http.Client{Transport: transport()}},
	}
}

// Typed is an option for clients of an emulator's streams. It corrects the responses of DynamoDB
// Local, see typing.
func (k Kind) Typed(o *dynamodbstreams.Options) {
	if k == DynamoDBLocal {
		o.HTTPClient = typing{o.HTTPClient}
	}
}

// transport keeps enough idle connections for the concurrency tests. With the default of two per
// host, they would mainly test reconnecting.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	return t
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
