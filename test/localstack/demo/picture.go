package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
)

// sum is the outcome of the requests for the hot bucket until an instant: how many were made,
// admitted and allowed.
type sum struct{ At, Asked, Admitted, Allowed float64 }

// hotLimit is the limit that the picture shows: each request takes one of it.
const hotLimit = "rpm"

// sumEvery is the distance between the picture's sums, in ms.
const sumEvery = 500

// sumsOf returns the outcome of the requests for a limit, sent at the instants asked, from the
// beginning of the run.
func sumsOf(p loadcheck.Page, asked []int64, begin, end int64) (out []sum) {
	if len(p.Seen) == 0 || len(asked) == 0 {
		return nil
	}
	first := slices.Min(asked)
	for at := begin; at <= end; at += sumEvery {
		s := sumAt(p, first, at)
		s.At = float64(at-begin) / 1000
		for _, sent := range asked {
			if sent <= at {
				s.Asked++
			}
		}
		out = append(out, s)
	}
	return out
}

// sumAt returns the admitted and allowed tokens of a limit until an instant. Tokens are admitted
// when the answer arrives; allowed are the capacity, the refill since the first request, and the
// give-backs.
func sumAt(p loadcheck.Page, first, at int64) (s sum) {
	rule := p.Seen[0] // it does not change
	s.Allowed = float64(rule.Capacity) + float64(rule.Amount)*float64(max(0, at-first))/float64(rule.Period)
	for _, e := range p.Events {
		switch {
		case e.Kind == loadcheck.Grant && e.Answered <= at:
			s.Admitted += float64(e.Tokens)
		case e.Kind == loadcheck.Return && e.Sent <= at:
			s.Allowed += float64(e.Tokens)
		}
	}
	return s
}

//go:embed picture.svg
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Funcs(template.FuncMap{
	"number": number,
	"below":  func(y, by float64) float64 { return y + by },
}).Parse(pictureText))

type colours struct{ Paper, Ink, Soft, Rule, Main, Second string }

// ofThePage are the colours of the page with the picture, which follow the reader's theme.
var ofThePage = colours{"var(--paper)", "var(--ink)", "var(--soft)", "var(--rule)", "var(--main)", "var(--second)"}

// themes are the colours of the pictures made from a run.
var themes = map[string]colours{
	"light": {"#ffffff", "#1b1f24", "#59636e", "#d1d9e0", "#0b66c3", "#b35900"},
	"dark":  {"#0d1117", "#e6edf3", "#9da7b1", "#3d444d", "#58a6ff", "#f0883e"},
}

// picture is the README's picture of a run until the end of its rush: the requests for the hot
// bucket, its shards, and the faults.
type picture struct {
	colours
	Date                     string
	Height, Foot             float64
	Sums, Shards, Lanes      frame
	Asked, Allowed, Admitted string // paths
	Line, Area               string
	Most                     float64
	Ends                     sum // of the lines
	Labels                   []label
	Faults                   []faults
}

// label is the text at the end of a line.
type label struct {
	Text, Fill string
	Weight     int
	Y          float64
}

const (
	// lineHeight is the least distance between texts that do not overlap.
	lineHeight = 18
	// betweenPanels is the distance to the next panel below, for its name.
	betweenPanels = 34
)

// drawPicture writes a run as a picture.
func drawPicture(w io.Writer, r story, c colours) error {
	if len(r.Hot) == 0 || len(r.Shards) == 0 {
		return errors.New("the run has no requests for the hot bucket")
	}
	p := picture{colours: c, Date: strings.Fields(r.Date)[0], Ends: r.Hot[0], Faults: byKind(r.Incidents, r.Rush)}
	var asked, allowed, admitted, shards []point
	for _, s := range r.Hot {
		if s.At > r.Rush {
			break
		}
		p.Ends = s
		asked = append(asked, point{s.At, s.Asked})
		allowed = append(allowed, point{s.At, s.Allowed})
		admitted = append(admitted, point{s.At, s.Admitted})
	}
	for i, s := range r.Shards {
		if s.At <= r.Rush && (i == 0 || s.Shards != r.Shards[i-1].Shards) {
			p.Most = max(p.Most, float64(s.Shards))
			shards = append(shards, point{s.At, float64(s.Shards)})
		}
	}
	p.Sums = frame{Left: 56, Top: 60, Width: 544, Height: 190, seconds: r.Rush}
	p.Sums.high = max(1, 1.05*max(p.Ends.Asked, p.Ends.Allowed))
	p.Shards = p.Sums.under(64)
	p.Shards.high = 1.15 * p.Most
	p.Lanes = p.Shards.under(lineHeight * float64(len(p.Faults)))
	p.Foot = p.Lanes.Below() + lineHeight + 4
	p.Height = p.Foot + 12
	p.Asked, p.Allowed, p.Admitted = p.Sums.line(asked, false), p.Sums.line(allowed, false), p.Sums.line(admitted, false)
	p.Line = p.Shards.line(shards, true)
	p.Area = fmt.Sprintf("%sV%.1fH%.1fZ", p.Line, p.Shards.Bottom(), p.Shards.X(shards[0].At))
	p.Labels = p.labels()
	return pictureTemplate.Execute(w, p)
}

// labels returns the texts at the ends of the lines, each as close to its line as the others allow.
func (p picture) labels() []label {
	all := []label{
		{number(p.Ends.Asked) + " sent", p.Soft, 400, p.Sums.Y(p.Ends.Asked)},
		{number(p.Ends.Allowed) + " allowed", p.Second, 400, p.Sums.Y(p.Ends.Allowed)},
		{number(p.Ends.Admitted) + " admitted", p.Main, 600, p.Sums.Y(p.Ends.Admitted)},
	}
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(a.Y, b.Y) })
	floor := p.Sums.Bottom()
	for i := len(all) - 1; i >= 0; i-- {
		all[i].Y = min(all[i].Y, floor)
		floor = all[i].Y - lineHeight
	}
	ceiling := p.Sums.Top
	for i := range all {
		all[i].Y = max(all[i].Y, ceiling)
		ceiling = all[i].Y + lineHeight
		all[i].Y += 4 // texts stand on their line
	}
	return all
}

// savePictures makes the pictures from a page that a run has written, and saves the story of the
// run, from which they can be made again. A failed run has no pictures.
func savePictures(page, data, folder string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), `<script type="application/json" id="record">`)
	kept, _, found := strings.Cut(rest, "</script>")
	var r story
	if err := json.Unmarshal([]byte(kept), &r); err != nil || !found {
		return fmt.Errorf("%s has no record of a run: %w", page, err)
	}
	if len(r.Why) > 0 {
		return fmt.Errorf("%s is of a run that failed: %s", page, strings.Join(r.Why, "; "))
	}
	again, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(data, append(again, '\n'), 0o644); err != nil {
		return err
	}
	for theme, c := range themes {
		var out strings.Builder
		if err := drawPicture(&out, r, c); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "demo-"+theme+".svg"), []byte(out.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// panel is a part of the picture.
type panel struct {
	P    picture
	F    frame
	Name string // of its axis
}

// With returns the part that is drawn in the frame.
func (p picture) With(f frame, name string) panel { return panel{p, f, name} }

// Lane returns the position of the faults of a kind.
func (p picture) Lane(i int) float64 { return p.Lanes.Top + lineHeight*(float64(i)+0.5) }
