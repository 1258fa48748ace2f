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
	Picture template.HTML
	Summary string
}

// margin describes how close a figure came to its bound, excess tokens above it.
func margin(excess float64) string {
	side := "below"
	if excess > 0 {
		side = "above"
	}
	return fmt.Sprintf("%.3g tokens %s its bound", math.Abs(excess), side)
}

// writePage writes the story as one self-contained page.
func writePage(w io.Writer, r story, summary string) error {
	p := page{Story: r, Summary: summary}
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
