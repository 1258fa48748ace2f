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

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"number": number}).Parse(pageText))

// page is the story with its picture, and the printed summary. It also includes the story itself in
// machine-readable form.
type page struct {
	Story   story
	Passed  bool
	Picture template.HTML
	Bars    []bar
	Summary string
}

// Sent is how many requests of the workload were sent.
func (p page) Sent() int { return p.Story.Planned - p.Story.LeftOut }

// margin describes how close a figure came to its bound, excess tokens above it.
func margin(excess float64) string {
	side := "below"
	if excess > 0 {
		side = "above"
	}
	return fmt.Sprintf("%.3g tokens %s its bound", math.Abs(excess), side)
}

// bar is a limit: the admitted part of its allowance. Tenant is empty after the tenant's first bar.
type bar struct {
	grants
	Tenant  string
	Percent float64
}

// writePage writes the story as one self-contained page.
func writePage(w io.Writer, r story, summary string) error {
	p := page{Story: r, Passed: len(r.Why) == 0, Bars: barsOf(r.Tenants), Summary: summary}
	if len(r.Hot) > 0 {
		var drawn strings.Builder
		if err := drawPicture(&drawn, r, ofThePage); err != nil {
			return err
		}
		p.Picture = template.HTML(drawn.String())
	}
	return pageTemplate.Execute(w, p)
}

// savePage writes the page to a file, creating its folder if necessary.
func savePage(path string, r story, summary string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var out strings.Builder
	if err := writePage(&out, r, summary); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// barsOf converts grants, sorted by tenant, to bars.
func barsOf(all []grants) (out []bar) {
	last := ""
	for _, g := range all {
		b := bar{grants: g, Tenant: g.Entity + " on " + g.Resource, Percent: 100 * g.Admitted / max(g.Allowed, 1)}
		if b.Tenant == last {
			b.Tenant = ""
		} else {
			last = b.Tenant
		}
		out = append(out, b)
	}
	return out
}
