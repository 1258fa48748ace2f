package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
)

// recorded returns the record of a real run, from the page that it wrote.
func recorded(t *testing.T) story {
	t.Helper()
	text, err := os.ReadFile("testdata/run.json")
	check.Must(t, err)
	var r story
	check.Must(t, json.Unmarshal(text, &r))
	return r
}

// shown is a section of the page as a reader sees it.
type shown struct {
	ID            string
	Heading       string
	Width, Height float64
	Drawn         int // shapes of its pictures with an extent
}

const sections = `[...document.querySelectorAll("section")].map(s => ({
	ID: s.id, Heading: s.querySelector("h2").innerText,
	Width: s.getBoundingClientRect().width, Height: s.getBoundingClientRect().height,
	Drawn: [...s.querySelectorAll("svg path, svg rect, svg circle")].filter(e => {
		const b = e.getBoundingClientRect(); return b.width > 0 || b.height > 0 }).length}))`

// TestPageInABrowser opens the report of a run, on a desktop and on a phone, in light and dark
// colours.
func TestPageInABrowser(t *testing.T) {
	r := recorded(t)
	path := filepath.Join(t.TempDir(), "demo.html")
	check.Must(t, savePage(path, r, "demo: everything agrees"))
	for _, screen := range []browser.Screen{{Width: 1280, Height: 900}, {Width: 390, Height: 844, Dark: true}} {
		t.Run(fmt.Sprint(screen.Width), func(t *testing.T) {
			p := browser.Open(t, "file://"+path, screen)
			check.Slices(t, p.Requests(), []string{"file://" + path}, "what the page asks for")
			check.Equal(t, browser.Eval[string](p, "document.title"), "zae-limiter demo: PASS", "title")
			if got := browser.Eval[float64](p, "document.documentElement.scrollWidth"); got > float64(screen.Width) {
				t.Errorf("the page is %.0f wide on a screen of %d", got, screen.Width)
			}
			all := browser.Eval[[]shown](p, sections)
			var ids []string
			for _, s := range all {
				ids = append(ids, s.ID)
				if s.Heading == "" || s.Height < 50 || s.Width < 300 || s.Drawn == 0 && s.ID != "summary" {
					t.Errorf("section %+v", s)
				}
			}
			check.Slices(t, ids, []string{"rush", "admitted", "summary"}, "sections")
			for _, problem := range p.Problems() {
				t.Error(problem)
			}
			if dir := os.Getenv("PICTURES"); dir != "" {
				check.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(screen.Width, ".png")), p.Picture(), 0o644))
			}
			for _, problem := range p.Unreadable() {
				t.Error(problem)
			}
			looksRight(t, p, r)
		})
	}
}

// looksRight compares the drawing with the record.
func looksRight(t *testing.T, p *browser.Page, r story) {
	t.Helper()
	// Each bar fills its track by the share that its limit admitted.
	type lengths struct{ Fill, Track float64 }
	got := browser.Eval[[]lengths](p, `[...document.querySelectorAll("svg.bar")].map(s => {
		const [track, fill] = [...s.querySelectorAll("rect")].map(e => e.getBoundingClientRect().width);
		return {Fill: fill, Track: track}})`)
	want := r.Tenants
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d bars for %d limits", len(got), len(want))
	}
	for i, b := range got {
		share := want[i].Admitted / want[i].Allowed
		if b.Track < 50 || b.Fill/b.Track < share-0.02 || b.Fill/b.Track > share+0.02 {
			t.Errorf("%+v: the bar is %.1f of %.1f long, want %.1f %%", want[i], b.Fill, b.Track, 100*share)
		}
	}
	incidents := 0
	for _, in := range r.Incidents {
		if in.At <= r.Rush {
			incidents++
		}
	}
	if got := browser.Eval[int](p, `document.querySelectorAll("#rush circle").length`); got != incidents || got == 0 {
		t.Errorf("%d marks for %d faults", got, incidents)
	}
	check.Equal(t, browser.Eval[string](p, `document.querySelector("#summary pre").innerText`),
		"demo: everything agrees", "the summary")
	if browser.Eval[bool](p, `(s => s.stroke == "none" || s.stroke == getComputedStyle(document.body).backgroundColor)(
		getComputedStyle(document.querySelector("#rush path")))`) {
		t.Error("a line has the colour of the paper")
	}
	if browser.Eval[bool](p, `(s => s.color == s.backgroundColor)(getComputedStyle(document.body))`) {
		t.Error("the text has the colour of the paper")
	}
	again := browser.Eval[story](p, `JSON.parse(document.querySelector("#record").textContent)`)
	check.Equal(t, fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", r),
		"the record in the page is not the one that it was made from")
}

// The page of a failed run says so, and texts cannot inject HTML.
func TestPageOfAFailure(t *testing.T) {
	r := story{About: "<script>alert(1)</script>", Why: []string{"5 < 6 events"}, Seconds: 1}
	var out strings.Builder
	check.Must(t, writePage(&out, r, ""))
	p := browser.Open(t, browser.DataURL(out.String()), browser.Screen{Width: 800, Height: 600})
	got := browser.Eval[string](p, `["h1", ".why"].map(s => document.querySelector(s).innerText).join(": ")`)
	check.Equal(t, got, "Demo of the whole system FAIL: 5 < 6 events", "it says")
	if got := p.Problems(); len(got) != 0 {
		t.Errorf("problems: %q", got)
	}
}
