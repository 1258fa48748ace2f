package examples_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// bench is a folder with the programs, built, and a table for them.
type bench struct {
	folder string
	env    []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{folder: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", b.folder, "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e := engine.ForTest(t, engine.Dynoxide)
	if _, err := limitertable.Create(t.Context(), e.DynamoDB(), "programs"); err != nil {
		t.Fatal(err)
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
// with the test.
func (b *bench) serve(t *testing.T, name string) string {
	t.Helper()
	cmd := b.command(name, "-addr", "127.0.0.1:0")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	line, err := lines.ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%s says %q, %v", name, line, err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil || len(rest) > 0 {
			t.Errorf("%s ended with %v\n%s", name, err, rest)
		}
	})
	return url
}

func ask(t *testing.T, r *http.Request, err error) (*http.Response, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// Every program runs as its comment says, on a local table. The Lambda function needs
// Lambda, and has a test of its own.
func TestPrograms(t *testing.T) {
	b := newBench(t)
	t.Run("http-api", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.serve(t, "http-api")+"/api/hello", nil)
		if err == nil {
			r.Header.Set("X-Api-Key", "demo")
		}
		if a, body := ask(t, r, err); a.StatusCode != http.StatusOK || body != "hello acme\n" {
			t.Errorf("%s: %s", a.Status, body)
		}
	})
	t.Run("llm-gateway", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.serve(t, "llm-gateway")+"/v1/chat",
			strings.NewReader(`{"prompt":"say it","max_tokens":3}`))
		if err == nil {
			r.Header.Set("Authorization", "Bearer demo")
		}
		want := ""
		for _, event := range []string{`{"text":"say "}`, `{"text":"it "}`, `{"text":"say "}`, `"[DONE]"`} {
			want += "data: " + event + "\n\n"
		}
		if a, body := ask(t, r, err); a.StatusCode != http.StatusOK || body != want {
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
	entries, err := os.ReadDir(b.folder)
	if err != nil || len(entries) != 5 { // a new one needs a test here
		t.Errorf("programs: %v, %v", entries, err)
	}
}
