package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/otellimit"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// tool is the built command-line tool.
var tool string

func TestMain(m *testing.M) {
	os.Exit(engine.WithTool(func(path string) int {
		tool = path
		defer engine.StopShared()
		return m.Run()
	}))
}

// series are the names of series in a scrape, each with the labels that it has.
type series map[string]map[string]bool

// add adds what a scrape has of the limiter, and the labels that Prometheus adds.
func (s series) add(t *testing.T, scrape io.Reader) {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(scrape)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		if !strings.HasPrefix(name, "zae_limiter_") {
			continue
		}
		names := []string{name}
		if f.GetMetric()[0].GetHistogram() != nil {
			names = []string{name + "_count", name + "_bucket"}
		}
		for _, n := range names {
			if s[n] == nil {
				s[n] = map[string]bool{"job": true, "instance": true, "le": strings.HasSuffix(n, "_bucket")}
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					s[n][l.GetName()] = true
				}
			}
		}
	}
}

// ofPrograms is a scrape of a program with otellimit in which all has happened that it measures.
func ofPrograms(t *testing.T) io.Reader {
	t.Helper()
	registry := client.NewRegistry()
	reader, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	obs, err := otellimit.New(otellimit.Options{TracerProvider: noop.NewTracerProvider(),
		MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []limiter.Event{
		{Kind: limiter.EventAcquire, Writes: 1, Costs: limiter.Costs{"rpm": 1}, Overdrawn: []limiter.Status{{Limit: "rpm"}}},
		{Kind: limiter.EventAcquire, Err: &limiter.LimitError{Limit: "rpm"}},
		{Kind: limiter.EventAcquire, Err: limiter.ErrUnavailable, Policy: limiter.PolicyAllow},
		{Kind: limiter.EventCommit}, {Kind: limiter.EventBreaker, Open: true}, {Kind: limiter.EventClock},
		{Kind: limiter.EventSplit},
	} {
		obs.Observe(t.Context(), e)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body
}

const rules = "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 3}}]\n"

// ofServe is a scrape of zae-limiter serve, after a request of Envoy and a change of its rules.
func ofServe(t *testing.T) io.Reader {
	t.Helper()
	e := engine.ForTest(t, engine.Dynoxide)
	name := engine.UniqueName("grafana")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	if _, err := limitertable.Create(t.Context(), e.DynamoDB(), name); err != nil {
		t.Fatal(err)
	}
	opts := &limiter.Options{Register: true, Timeout: time.Minute}
	if _, err := limiter.Open(t.Context(), e.DynamoDB(), name, opts); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(folder, "edge.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(rules)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends serve if it does not print what is awaited
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, tool, "serve", "--config", folder, "--grpc", "", "--http", "127.0.0.1:0",
		"--timeout", "1m", "-t", name)
	cmd.Env = append(e.Env(), "HOME="+t.TempDir())
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(pipe)
	says := func(prefix string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("serve ended without %q", prefix)
		return ""
	}
	url := "http://" + says("HTTP on ")
	ask := `{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "acme"}]}]}`
	resp, err := http.Post(url+"/json", "application/json", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	write(rules + "# changed\n")
	says("the new rules are in force")
	if resp, err = http.Get(url + "/metrics"); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

// The dashboard is as the generator prints it, and as Grafana's schema has it.
func TestDashboardIsCurrent(t *testing.T) {
	is, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := build()
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(is), want) {
		t.Error("dashboard.json is not current: go -C examples run ./grafana > examples/grafana/dashboard.json")
	}
	if err := d.UnmarshalJSONStrict(is); err != nil && err.Error() != "" { // no errors are an error without text
		t.Error(err)
	}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

// Every expression is one of Prometheus, of series and labels that a scrape has; and all that is exported is shown.
func TestDashboardShowsAllThatIsScraped(t *testing.T) {
	there := series{}
	there.add(t, ofPrograms(t))
	there.add(t, ofServe(t))
	shown := map[string]bool{}
	for _, row := range rows {
		for _, p := range row.panels {
			for _, line := range p.lines {
				text := strings.ReplaceAll(line[1], "$__rate_interval", "1m")
				e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
				if err != nil {
					t.Fatalf("%s: %v", p.title, err)
				}
				labels := map[string]bool{}
				if by, ok := strings.CutPrefix(line[0], "{{"); ok {
					labels[strings.TrimSuffix(by, "}}")] = true
				}
				var of []string
				parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
					switch n := n.(type) {
					case *parser.VectorSelector:
						of = append(of, n.Name)
						for _, m := range n.LabelMatchers {
							labels[m.Name] = m.Name != model.MetricNameLabel
						}
					case *parser.AggregateExpr:
						for _, by := range n.Grouping {
							labels[by] = true
						}
					}
					return nil
				})
				if len(of) == 0 {
					t.Errorf("%s shows nothing: %s", p.title, line[1])
				}
				for _, name := range of {
					shown[name] = true
					for label, is := range labels {
						if is && !there[name][label] {
							t.Errorf("%s: no %s has a label %q: %v", p.title, name, label, there[name])
						}
					}
				}
			}
		}
	}
	for name := range there {
		if base, ok := strings.CutSuffix(name, "_count"); !shown[name] && !(ok && shown[base+"_bucket"]) {
			t.Errorf("no panel shows %s", name)
		}
	}
}
