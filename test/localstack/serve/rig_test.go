package serve

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/childproc"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

const rules = `domain: edge
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: user
    value: crowd
    rate_limit: {unit: year, requests_per_unit: 100}
  - key: remote_address
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: generic_key
    value: web
    descriptors:
      - key: path
        value: /api/*
        rate_limit: {unit: year, requests_per_unit: 1, name: api}
`

// tool is the built command-line tool.
var tool string

func TestMain(m *testing.M) {
	os.Exit(engine.WithTool(func(path string) int {
		tool = path
		return m.Run()
	}))
}

// process is a running program.
type process struct {
	*childproc.Proc
	output *bytes.Buffer // complete when it has ended
	http   string        // the URL of a service
}

func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{output: &bytes.Buffer{}}
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, p.output, p.output
	var err error
	if p.Proc, err = childproc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
		if t.Failed() {
			t.Logf("%s %v:\n%s", name, args, p.output)
		}
	})
	return p
}

// table is an emulator with a table, and a folder with the rules.
type table struct {
	fault *fault.Proxy // between the service and the emulator
	env   []string
	rules string
}

func newTable(t *testing.T) *table {
	t.Helper()
	e, err := engine.Start(t.Context(), engine.Dynoxide)
	check.Must(t, err)
	t.Cleanup(e.Stop)
	between, e, err := fault.Engine(e, 1)
	check.Must(t, err)
	t.Cleanup(between.Stop)
	w := &table{between, append(e.Env(), "HOME="+t.TempDir()), t.TempDir()}
	check.Must(t, os.WriteFile(filepath.Join(w.rules, "edge.yaml"), []byte(rules), 0o644))
	w.run(t, "table create")
	w.run(t, "namespace register default")
	return w
}

// run runs a command of the tool.
func (w *table) run(t *testing.T, command string, more ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, append(strings.Fields(command), more...)...)
	cmd.Env = w.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// serve runs the service on a port until the test ends or the process is killed.
func (w *table) serve(t *testing.T, port int) *process {
	t.Helper()
	address := fmt.Sprint("127.0.0.1:", freePort(t))
	p := start(t, w.env, tool, "serve", "--config", w.rules, "--ahead", "0", "--timeout", "5s",
		"--grpc", fmt.Sprint("127.0.0.1:", port), "--http", address)
	p.http = "http://" + address
	p.answers(t, p.http+"/healthz")
	return p
}

// answers waits until a process answers 200.
func (p *process) answers(t *testing.T, url string) {
	t.Helper()
	for {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-p.Done():
			t.Fatalf("it ended: %v\n%s", p.Err(), p.output)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePort returns a port for a program of the test, which no other program gets before or after.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer func() { _ = l.Close() }()
	release, err := check.Hold(l)
	check.Must(t, err)
	t.Cleanup(release)
	return l.Addr().(*net.TCPAddr).Port
}
