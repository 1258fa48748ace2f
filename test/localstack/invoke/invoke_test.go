package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

func invoke(t *testing.T, env map[string]string, args ...string) (code int, out, problems string) {
	t.Helper()
	var o, p bytes.Buffer
	code = run(t.Context(), args, func(name string) string { return env[name] }, &o, &p)
	return code, o.String(), p.String()
}

// TestSampleEvents runs every sample event of both functions through the built binaries. The
// goldens next to the handlers have their writes.
func TestSampleEvents(t *testing.T) {
	for _, c := range []struct {
		function string
		says     []string
	}{
		{"aggregator", []string{
			"=== aggregator aggregator-acquire.json", "--- logs\n", `{"batchItemFailures":[]}`,
			"new kQ3xZp9LmNa/ENTITY#user:1  #USAGE#openai/gpt-4#2023-11-14\n", `"window": {"S": "daily"}`, "malformed/year=",
		}},
		{"archiver", []string{
			"=== archiver archiver-expired.json", "--- logs\n", `{"batchItemFailures":[]}`, "audit/", `"event_id": `,
			"malformed/",
		}},
	} {
		t.Run(c.function, func(t *testing.T) {
			code, out, problems := invoke(t, nil, "-function", c.function)
			if code != 0 || problems != "" {
				t.Fatalf("status %d: %s\n%s", code, problems, out)
			}
			events, err := filepath.Glob(filepath.Join(engine.Root(), "..", "..", "events", c.function+"-*.json"))
			if err != nil || len(events) == 0 || strings.Count(out, "--- response") != len(events) {
				t.Errorf("%d responses of %d events, %v", strings.Count(out, "--- response"), len(events), err)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in the output", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestAFunctionThatFailsIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no-event.json")
	check.Must(t, os.WriteFile(file, []byte(`"hello"`), 0o600))
	code, out, problems := invoke(t, nil, "-function", "archiver", "-event", file)
	if code != 1 || !strings.Contains(problems, "failed on no-event.json") || !strings.Contains(out, "errorMessage") {
		t.Errorf("status %d: %s\n%s", code, problems, out)
	}
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		says string
	}{
		{"no function", nil, nil, `-function is "", accepted are aggregator and archiver`},
		{"unknown function", nil, []string{"-function", "Aggregator"},
			`-function is "Aggregator", accepted are aggregator and archiver`},
		{"no such event", nil, []string{"-function", "archiver", "-event", "nowhere.json"}, "nowhere.json: no such file"},
		{"unknown flag", nil, []string{"-fn", "archiver"}, "-fn"},
		{"stray argument", nil, []string{"-function", "archiver", "events/x.json"}, `argument "events/x.json"`},
		{"table without endpoint", map[string]string{"TABLE_NAME": "limits"}, []string{"-function", "archiver"},
			"TABLE_NAME"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, problems := invoke(t, c.env, c.args...)
			if code != 2 || out != "" || !strings.Contains(problems, c.says) {
				t.Errorf("status %d, output %q, problems %q; want 2, nothing, and %q", code, out, problems, c.says)
			}
		})
	}
}
