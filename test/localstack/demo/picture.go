package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/zeroae/zae-limiter-go/internal/play"
)

// What has become of the requests for the hot bucket until an instant: how many there
// were, how many were admitted, and how many might have been.
type sum struct{ At, Asked, Admitted, Allowed float64 }

// hotLimit is the limit that the picture is about: each request takes one of it.
const hotLimit = "rpm"

// sumEvery is how far apart the sums of the picture are, in ms.
const sumEvery = 500

// sums returns what became of the requests for a limit, from the begin of the run on.
// What was admitted counts from its answer on; what was allowed is the capacity, what was
// refilled since the first request, and what was given back.
func (l *book) sums(a play.Account, begin, end int64) (out []sum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rule, ok := l.rule(a)
	if !ok || len(l.asked[a]) == 0 {
		return nil
	}
	events := l.Page(a).Events
	first := l.asked[a][0]
	for _, at := range l.asked[a] {
		first = min(first, at)
	}
	for at := begin; at <= end; at += sumEvery {
		s := sum{At: float64(at-begin) / 1000}
		for _, sent := range l.asked[a] {
			if sent <= at {
				s.Asked++
			}
		}
		s.Allowed = float64(rule.Capacity) + float64(rule.Amount)*float64(max(0, at-first))/float64(rule.Period)
		for _, e := range events {
			switch {
			case e.Kind == play.Grant && e.Answered <= at:
				s.Admitted += float64(e.Tokens)
			case e.Kind == play.Return && e.Sent <= at:
				s.Allowed += float64(e.Tokens)
			}
		}
		out = append(out, s)
	}
	return out
}

//go:embed picture.svg
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Funcs(template.FuncMap{
	"number": number,
	"below":  func(y, by float64) float64 { return y + by },
}).Parse(pictureText))

// colours are those of a picture.
type colours struct{ Paper, Ink, Soft, Rule, Wash, Main, Second string }

// themes are the pictures that are made of a run.
var themes = map[string]colours{
	"light": {"#ffffff", "#1b1f24", "#59636e", "#d1d9e0", "#f3f5f7", "#0b66c3", "#b35900"},
	"dark":  {"#0d1117", "#e6edf3", "#9da7b1", "#3d444d", "#161b22", "#58a6ff", "#f0883e"},
}

// picture is what the README shows of a run: the requests for the hot bucket, and its
// shards.
type picture struct {
	colours
	Date                     string
	Sums, Shards             frame
	Asked, Allowed, Admitted string // paths
	Line, Area               string
	Rush, Most               float64
	Ends                     sum // of the lines
	Trouble                  string
}

// drawPicture writes a run as a picture.
func drawPicture(w io.Writer, r story, c colours) error {
	if len(r.Hot) == 0 || len(r.Shards) == 0 {
		return errors.New("the run has no requests for the hot bucket")
	}
	end := r.Shards[len(r.Shards)-1].At + 1
	p := picture{colours: c, Date: strings.Fields(r.Date)[0], Ends: r.Hot[0]}
	var asked, allowed, admitted, shards []point
	for _, s := range r.Hot {
		if s.At > end {
			break
		}
		p.Ends = s
		asked = append(asked, point{s.At, s.Asked})
		allowed = append(allowed, point{s.At, s.Allowed})
		admitted = append(admitted, point{s.At, s.Admitted})
	}
	for i, s := range r.Shards {
		p.Most = max(p.Most, float64(s.Shards))
		if i == 0 || s.Shards != r.Shards[i-1].Shards {
			shards = append(shards, point{s.At, float64(s.Shards)})
		}
	}
	p.Sums = frame{Left: 56, Top: 44, Width: 544, Height: 178, seconds: end}
	p.Sums.high = 1.05 * max(p.Ends.Asked, p.Ends.Allowed)
	p.Shards = frame{Left: 56, Top: 250, Width: 544, Height: 80, seconds: end, high: 1.15 * p.Most}
	p.Asked, p.Allowed, p.Admitted = p.Sums.line(asked, false), p.Sums.line(allowed, false), p.Sums.line(admitted, false)
	p.Line = p.Shards.line(shards, true)
	p.Area = fmt.Sprintf("%sV%.1fH%.1fZ", p.Line, p.Shards.Bottom(), p.Shards.X(shards[0].At))
	p.Rush = p.Sums.X(r.Rush) - p.Sums.Left
	p.Trouble = fmt.Sprintf("%d times something went wrong on purpose", len(r.Incidents))
	return pictureTemplate.Execute(w, p)
}

// savePictures makes the pictures of a page that a run has written, and keeps the story
// of the run, from which they can be made again. A run that has failed has no pictures.
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
	P picture
	F frame
}

// With returns the part that is drawn in the frame.
func (p picture) With(f frame) panel { return panel{p, f} }

// ended is where the line of a value ends, for the text beside it.
func (p picture) ended(value float64) float64 { return math.Round(p.Sums.Y(value)) }

// AskedAt, AllowedAt and AdmittedAt are where the texts of the lines stand.
func (p picture) AskedAt() float64 { return p.ended(p.Ends.Asked) + 4 }

// AllowedAt keeps clear of what was admitted, which may end close below it.
func (p picture) AllowedAt() float64 {
	return min(p.ended(p.Ends.Allowed)+4, p.ended(p.Ends.Admitted)-12)
}

// AdmittedAt is that of what was admitted.
func (p picture) AdmittedAt() float64 { return p.ended(p.Ends.Admitted) + 8 }
