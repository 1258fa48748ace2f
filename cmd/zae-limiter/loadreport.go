package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
)

//go:embed load.html
var loadPage string

var loadTemplate = template.Must(template.New("load").Parse(loadPage))

// mostEntities is how many entities the report lists.
const mostEntities = 100

// html returns the report as one file that needs no other.
func (r loadResult) html() ([]byte, error) {
	var offered, admitted, denied, failures, p50, p99 []float64
	for _, s := range r.PerSecond {
		offered, admitted = append(offered, float64(s.Offered)), append(admitted, float64(s.Admitted))
		denied, failures = append(denied, float64(s.Denied)), append(failures, float64(s.Failed))
		p50, p99 = append(p50, s.P50MS), append(p99, s.P99MS)
	}
	listed := r.Entities[:min(len(r.Entities), mostEntities)]
	var out bytes.Buffer
	err := loadTemplate.Execute(&out, map[string]any{
		"Plan": r.plan, "Figures": r.figures(), "Over": r.TokensOver,
		"Entities": listed, "More": len(r.Entities) - len(listed),
		"Requests": chart("requests per second", []line{
			{"offered", "#888", offered}, {"admitted", "#2a7", admitted}, {"denied", "#d80", denied},
			{"no decision", "#c22", failures},
		}),
		"Latency": chart("milliseconds", []line{{"p50", "#27c", p50}, {"p99", "#a3c", p99}}),
	})
	return out.Bytes(), err
}

// line is one line of a chart, one value a second.
type line struct {
	name, colour string
	values       []float64
}

const (
	chartWidth, chartHeight = 720, 240
	chartLeft, chartBottom  = 60, 30
)

// roundUp returns a number that is not smaller and has one digit, and half of which is as easy
// to read: 15 becomes 20, 12.7 too, 0.41 becomes 0.6. Zero becomes 1.
func roundUp(n float64) float64 {
	if n <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(n)))
	for _, digit := range []float64{1, 2, 4, 6, 8} {
		if n <= digit*unit {
			return digit * unit
		}
	}
	return 10 * unit
}

// chart draws lines over time as an SVG.
func chart(unit string, lines []line) template.HTML {
	most, count := 0.0, 2
	for _, l := range lines {
		count = max(count, len(l.values))
		for _, v := range l.values {
			most = max(most, v)
		}
	}
	most = roundUp(most)
	x := func(i int) float64 {
		return chartLeft + float64(i)/float64(count-1)*(chartWidth-chartLeft-10)
	}
	y := func(v float64) float64 {
		return 10 + (1-v/most)*(chartHeight-chartBottom-10)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s over time">`, chartWidth, chartHeight, unit)
	for _, part := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f">%.4g</text>`,
			chartLeft,
			chartWidth-10, y(part*most), y(part*most), 5, y(part*most)+4, part*most)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0 s</text><text x="%d" y="%d">%d s</text>`, chartLeft, chartHeight-8,
		chartWidth-40,
		chartHeight-8, count-1)
	for _, l := range lines {
		var points []string
		for i, v := range l.values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, l.colour,
			strings.Join(points, " "))
	}
	b.WriteString("</svg><p class=\"legend\">" + unit + ":")
	for _, l := range lines {
		fmt.Fprintf(&b, ` <span style="color:%s">&#9632; %s</span>`, l.colour, l.name)
	}
	b.WriteString("</p>")
	return template.HTML(b.String()) // of constants and numbers
}
