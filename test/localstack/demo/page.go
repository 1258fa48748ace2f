package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"number":  number,
	"seconds": func(s float64) string { return fmt.Sprintf("%.1f s", s) },
	"margin":  margin,
}).Parse(pageText))

// page is the story with the shapes that show it. The story itself goes with it,
// for machines.
type page struct {
	Story   story
	Passed  bool
	Bars    []bars
	Level   plot
	Growth  plot
	Mishaps plot
	Faults  []faults
	Busy    plot
}

// Sent is how many requests of the workload were sent.
func (p page) Sent() float64 { return p.Planned() - float64(p.Story.LeftOut) }

// Planned is how many there are.
func (p page) Planned() float64 { return float64(p.Story.Planned) }

// margin says how near to its bound something came that is so many tokens above it.
func margin(excess float64) string {
	side := "below"
	if excess > 0 {
		side = "above"
	}
	return fmt.Sprintf("%.3g tokens %s its bound", math.Abs(excess), side)
}

// bars are the limits of one tenant.
type bars struct {
	Entity, Resource string
	Limits           []bar
}

// bar is a limit: the admitted part of its allowance.
type bar struct {
	Limit, Admitted, Allowed string
	Percent                  float64
}

// plot is a picture over time.
type plot struct {
	frame
	Unit         string // of its values
	Line, Dashed string // paths
	Rush         float64
	Marks        []mark
	Lanes        []mark // the names of its lines where each is a kind
}

// RushWidth is how wide the time of the rush is.
func (p plot) RushWidth() float64 { return p.Rush - p.Left }

// mark is a point with a text.
type mark struct {
	X, Y float64
	Text string
}

// writePage writes the story as one self-contained page.
func writePage(w io.Writer, r story) error {
	return pageTemplate.Execute(w, &page{
		Story: r, Passed: len(r.Why) == 0, Bars: barsOf(r.Tenants), Level: levelPlot(r),
		Growth: growthPlot(r), Mishaps: mishapPlot(r), Busy: busyPlot(r), Faults: byKind(r.Incidents, r.Seconds),
	})
}

// savePage writes the page to a file, whose folder need not exist.
func savePage(path string, r story) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var out strings.Builder
	if err := writePage(&out, r); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// barsOf groups grants, sorted by tenant, tenant by tenant.
func barsOf(all []grants) (out []bars) {
	for _, g := range all {
		if g.Entity == probeTenant.entity {
			continue
		}
		if n := len(out); n == 0 || out[n-1].Entity != g.Entity || out[n-1].Resource != g.Resource {
			out = append(out, bars{Entity: g.Entity, Resource: g.Resource})
		}
		b := &out[len(out)-1]
		percent := 100 * g.Admitted / max(g.Allowed, 1)
		b.Limits = append(b.Limits, bar{g.Limit, number(g.Admitted), number(g.Allowed), percent})
	}
	return out
}

func levelPlot(r story) plot {
	low, high := 0.0, r.Worst.Capacity
	for _, p := range r.Worst.Levels {
		low, high = min(low, p.Value), max(high, p.Value)
	}
	f := newFrame(r.Seconds, low, high)
	full := []point{{0, r.Worst.Capacity}, {r.Seconds, r.Worst.Capacity}}
	return plot{frame: f, Unit: "tokens", Line: f.line(r.Worst.Levels, false), Dashed: f.line(full, false),
		Rush: f.X(r.Rush)}
}

func growthPlot(r story) plot {
	var shards, counts []point
	most := 1
	for _, s := range r.Shards {
		most = max(most, s.Shards, s.Count)
		shards = append(shards, point{s.At, float64(s.Shards)})
		counts = append(counts, point{s.At, float64(s.Count)})
	}
	f := newFrame(r.Seconds, 0, float64(most)+math.Ceil(float64(most)/8))
	p := plot{frame: f, Unit: "shards", Line: f.line(shards, true), Dashed: f.line(counts, true), Rush: f.X(r.Rush)}
	for i, s := range r.Shards {
		if i == 0 || r.Shards[i-1].Shards != s.Shards {
			p.Marks = append(p.Marks, mark{f.X(s.At), f.Y(float64(s.Shards)), fmt.Sprintf("%.0f s: %d shards", s.At, s.Shards)})
		}
	}
	return p
}

// mishapPlot has a line for each kind of fault.
func mishapPlot(r story) plot {
	kinds := byKind(r.Incidents, r.Seconds)
	f := newFrame(r.Seconds, 0, 1)
	f.Width, f.Height = f.Width-130, lineHeight*float64(len(kinds))
	p := plot{frame: f, Rush: f.X(r.Rush)}
	for i, kind := range kinds {
		y := f.Top + lineHeight*(float64(i)+0.5)
		p.Lanes = append(p.Lanes, mark{f.Right() + 8, y, kind.What})
		for _, at := range kind.At {
			p.Marks = append(p.Marks, mark{f.X(at), y, fmt.Sprintf("%.1f s: %s", at, kind.What)})
		}
	}
	return p
}
