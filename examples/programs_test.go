package examples_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// started are the programs that are run here. Of all others each has a test of its own, but for redisrate, which needs
// a Redis and is only compiled.
var started = []string{"http-api", "llm-gateway", "worker", "multi-tenant", "beside/ours", "beside/golimiter"}

// bench is a folder with the programs that are run, built, and a table for them.
type bench struct {
	folder string
	env    []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{folder: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", b.folder)
	for _, name := range started {
		build.Args = append(build.Args, "./"+name)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e := engine.ForTest(t, engine.Dynoxide)
	for _, name := range []string{"programs", "zae-limiter"} {
		t.Cleanup(func() { e.RemoveTable(t, name) })
		if _, err := limitertable.Create(t.Context(), e.DynamoDB(), name); err != nil {
			t.Fatal(err)
		}
		opts := &limiter.Options{Register: true, Timeout: time.Minute}
		if _, err := limiter.Open(t.Context(), e.DynamoDB(), name, opts); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(append(os.Environ(), e.Env()...), "ZAEL_STACK=programs")
	return b
}

func (b *bench) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(b.folder, name), args...)
	cmd.Env = b.env
	return cmd
}

// serve starts a server and returns its address; it is interrupted, and must end well,
// with the test. One that found the machine too slow to open its table is started again.
func (b *bench) serve(t *testing.T, name string) string {
	t.Helper()
	var cmd *exec.Cmd
	var lines *bufio.Reader
	var url string
	for try := 0; url == ""; try++ {
		cmd = b.command(name, "-addr", "127.0.0.1:0")
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines = bufio.NewReader(pipe)
		line, err := lines.ReadString('\n')
		_, url, _ = strings.Cut(strings.TrimSpace(line), "listening on ")
		if url == "" {
			ended := cmd.Wait()
			if !strings.Contains(line, context.DeadlineExceeded.Error()) || try == 10 {
				t.Fatalf("%s says %q, %v, and ends with %v", name, line, err, ended)
			}
			t.Logf("played again: %s found its table too slow: %s", name, line)
		}
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		var rest []string
		for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
			if !strings.Contains(line, context.DeadlineExceeded.Error()) { // see ask
				rest = append(rest, line)
			}
		}
		if err := cmd.Wait(); err != nil || len(rest) > 0 {
			t.Errorf("%s ended with %v\n%s", name, err, rest)
		}
	})
	return url
}

// ask sends a request, again if the server found its table too slow: then nothing, or
// the tokens of one request, were taken.
func ask(t *testing.T, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	for try := 0; ; try++ {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusServiceUnavailable || try == 5 {
			return answer, string(text)
		}
		t.Logf("played again: %s found its table too slow", url)
	}
}

// Every program runs as its comment says, on a local table. The Lambda function needs
// Lambda, and has a test of its own, as the programs of pages have.
func TestPrograms(t *testing.T) {
	b := newBench(t)
	t.Run("http-api", func(t *testing.T) {
		url := b.serve(t, "http-api") + "/api/hello"
		a, body := ask(t, http.MethodGet, url, "", http.Header{"X-Api-Key": {"demo"}})
		if a.StatusCode != http.StatusOK || body != "hello acme\n" {
			t.Errorf("%s: %s", a.Status, body)
		}
	})
	t.Run("llm-gateway", func(t *testing.T) {
		want := ""
		for _, event := range []string{`{"text":"say "}`, `{"text":"it "}`, `{"text":"say "}`, `"[DONE]"`} {
			want += "data: " + event + "\n\n"
		}
		url := b.serve(t, "llm-gateway") + "/v1/chat"
		a, body := ask(t, http.MethodPost, url, `{"prompt":"say it","max_tokens":3}`,
			http.Header{"Authorization": {"Bearer demo"}})
		if a.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %s", a.Status, body)
		}
	})
	t.Run("worker", func(t *testing.T) {
		out, err := b.command("worker", "-jobs", "5").CombinedOutput()
		var jobs []string
		for line := range strings.Lines(string(out)) {
			_, job, _ := strings.Cut(strings.TrimSpace(line), " ")
			jobs = append(jobs, job)
		}
		slices.Sort(jobs)
		if want := []string{"job 1", "job 2", "job 3", "job 4", "job 5"}; err != nil || !slices.Equal(jobs, want) {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("multi-tenant", func(t *testing.T) {
		out, err := b.command("multi-tenant").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "acme/billing     asks 4 times: 2 granted, denied by acme\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("ours", func(t *testing.T) {
		if out, err := b.command("ours").CombinedOutput(); err != nil || string(out) != "<nil>\n" { // allowed
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("golimiter", func(t *testing.T) {
		out, err := b.command("golimiter").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "allowed true remaining 9 ") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{if and (eq .Name "main") (not .TestGoFiles)}}{{.Dir}}{{end}}`, "./...")
	untested, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range strings.Fields(string(untested)) {
		if name := filepath.Base(dir); name != "redisrate" && !slices.Contains(started, "beside/"+name) {
			t.Errorf("%s has no test, and is not started here", name)
		}
	}
}
