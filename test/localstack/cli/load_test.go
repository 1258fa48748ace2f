package cli

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
)

// A load test admits what the limits allow, and says so in every format. Its report is one
// self-contained file.
func TestLoad(t *testing.T) {
	s := onTable(t)
	file := filepath.Join(t.TempDir(), "load.html")
	type result struct {
		Offered, Admitted, Denied, Failed int
		Over                              int64 `json:"tokens_over"`
		Writes                            int64
		Entities                          []struct{ Granted, Allowed int64 }
		PerSecond                         []struct{ Offered int } `json:"per_second"`
	}
	got := prints[result](s, "load --rate 40 --duration 1s --entities 2 --limit rph=5/h --arrivals constant "+
		"--timeout 1m --report "+file)
	if got.Offered != 40 || got.Admitted != 10 || got.Denied != 30 || got.Failed != 0 || got.Over != 0 ||
		got.Writes < 10 ||
		len(got.Entities) != 2 ||
		got.Entities[0].Granted != 5 || got.Entities[0].Allowed < 5 || got.PerSecond[0].Offered < 1 {
		t.Errorf("load: %+v", got)
	}
	looksRight(t, file)
	s.says(0, "limits set -y -r api rps=1000/s")
	s.says(0, "load -r api --cost rps=1 --duration 3s --rate 20 --processes 2 --timeout 1m")
	s.says(0, "peek load-1 api", "rps")
}

// looksRight opens a report in a browser.
func looksRight(t *testing.T, file string) {
	p := browser.Open(t, "file://"+file, browser.Screen{Width: 1024, Height: 800})
	check.Slices(t, p.Requests(), []string{"file://" + file}, "what the report asks for")
	if got := p.Problems(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
	verdict := browser.Eval[string](p, `document.getElementById("verdict").innerText`)
	check.Equal(t, verdict, "Nothing was admitted above what the limits allow.", "verdict")
	plots := browser.Eval[[]float64](
		p, `[...document.querySelectorAll("svg.chart")].map(s => s.getBoundingClientRect().height)`)
	lines := browser.Eval[int](p, `document.querySelectorAll("polyline").length`)
	bars := browser.Eval[int](p, `document.querySelectorAll(".chart path").length`)
	if len(plots) != 3 || slices.Min(plots) < 100 || lines != 4 || bars != 3 {
		t.Errorf("plots of the heights %v with %d lines and %d kinds of bars", plots, lines, bars)
	}
	if got := p.Unreadable(); len(got) > 0 {
		t.Errorf("texts of the plots: %q", got)
	}
	// Without colours, the parts of a plot differ in their stripes or dashes.
	alike := browser.Eval[int](p, `[...document.querySelectorAll(".chart")].filter(c => {
		const looks = [...c.querySelectorAll("polyline, path")].map(e => { const s = getComputedStyle(e);
			return [s.strokeDasharray, s.fill.startsWith("url"), s.stroke == "none"].join() });
		return new Set(looks).size < looks.length }).length`)
	if alike > 0 {
		t.Errorf("%d plots have lines or bars that only their colour tells apart", alike)
	}
}
