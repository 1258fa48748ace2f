package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

//go:embed load.html
var loadPage string

var loadTemplate = template.Must(template.New("load").Parse(loadPage))

// mostEntities is the number of entities in the report.
const mostEntities = 100

// html returns the report as one self-contained file.
func (r loadResult) html() ([]byte, error) {
	var admitted, denied, failed, p50, p99 []point
	for i, s := range r.bins {
		at := float64(i) * r.binWidth.Seconds()
		admitted = append(admitted, point{at, float64(s.Admitted)})
		denied, failed = append(denied, point{at, float64(s.Denied)}), append(failed, point{at, float64(s.Failed)})
	}
	for i, s := range r.PerSecond {
		if s.P99MS > 0 { // requests were sent
			p50, p99 = append(p50, point{float64(i), s.P50MS}), append(p99, point{float64(i), s.P99MS})
		}
	}
	listed := r.Entities[:min(len(r.Entities), mostEntities)]
	data := map[string]any{
		"Plan": r.plan, "Figures": r.figures(), "Over": r.TokensOver,
		"Entities": listed, "More": len(r.Entities) - len(listed),
		"Requests": barChart("requests", fmt.Sprintf("requests in each %v s", r.binWidth.Seconds()), r.binWidth.Seconds(),
			series{"admitted", "admitted", admitted}, series{"denied", "denied", denied},
			series{"no decision", "failed", failed}),
		"Latency": lineChart("latency", "milliseconds", series{"p50", "main", p50}, series{"p99", "second", p99}),
	}
	if r.nearest.limit != "" {
		data["Nearest"] = r.nearest.entity + ": " + r.nearest.limit
		data["Proof"] = lineChart("admitted and allowed tokens", "tokens since the first request",
			series{"allowed", "second", r.nearest.allowed}, series{"admitted", "main", r.nearest.admitted})
	}
	var out bytes.Buffer
	err := loadTemplate.Execute(&out, data)
	return out.Bytes(), err
}
