package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
)

// TestPicturesAreOfTheKeptRun: the README's pictures and text agree with the recorded run.
func TestPicturesAreOfTheKeptRun(t *testing.T) {
	r := recorded(t)
	for theme, c := range themes {
		var out strings.Builder
		check.Must(t, drawPicture(&out, r, c))
		file := filepath.Join("..", "..", "..", "docs", "demo-"+theme+".svg")
		if got, err := os.ReadFile(file); err != nil || string(got) != out.String() {
			t.Errorf("%s is not of testdata/run.json, %v: make picture", file, err)
		}
		for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	most := 0
	for _, s := range r.Shards {
		most = max(most, s.Shards)
	}
	if first, last := r.Shards[0].Shards, r.Shards[len(r.Shards)-1].Shards; first != 1 || last != 1 || most < 4 {
		t.Errorf("the bucket has %d shards, then %d, then %d", first, most, last)
	}
	for _, s := range r.Hot {
		if s.Admitted > s.Allowed {
			t.Errorf("%+v: more was admitted than allowed", s)
		}
	}
}

// The labels of the pictures are readable for any run, even if its lines end at one place.
func TestLabelsOfThePicture(t *testing.T) {
	for name, last := range map[string]sum{
		"as recorded": {}, "all of one number": {Asked: 1617, Admitted: 1617, Allowed: 1617}, "nothing": {},
		"many, close together":    {Asked: 812_345, Admitted: 802_345, Allowed: 802_346},
		"nearly nothing admitted": {Asked: 9000, Admitted: 3, Allowed: 20},
	} {
		r := recorded(t)
		if name != "as recorded" {
			r.Hot = []sum{{At: 0}, last}
			r.Hot[1].At = r.Rush - 0.1
		}
		for theme, c := range themes {
			var out strings.Builder
			check.Must(t, drawPicture(&out, r, c))
			p := browser.Open(t, browser.DataURL(out.String()), browser.Screen{Width: 800, Height: 600, Dark: theme == "dark"})
			if got := p.Unreadable(); len(got) > 0 {
				t.Errorf("%s, %s: %q", name, theme, got)
			}
		}
	}
}

// A limit of 60 a minute with capacity 10: ten requests come in the first second, two of which give
// back. Then twelve and one more per second are allowed.
func TestSumsOfARun(t *testing.T) {
	p := loadcheck.Page{Seen: []loadcheck.Rule{{Capacity: 10, Amount: 60, Period: 60_000}}}
	asked := []int64{2900} // denied
	for at := int64(1000); at < 2000; at += 100 {
		asked = append(asked, at)
		p.Events = append(p.Events, loadcheck.Event{Kind: loadcheck.Grant, Sent: at, Answered: at + 100, Tokens: 1})
	}
	p.Events = append(p.Events, loadcheck.Event{Kind: loadcheck.Return, Sent: 1950, Answered: 2050, Tokens: 2})
	got := sumsOf(p, asked, 1000, 3000)
	for i, want := range []sum{{0, 1, 0, 10}, {0.5, 6, 5, 10.5}, {1, 10, 10, 13}, {1.5, 10, 10, 13.5}, {2, 11, 10, 14}} {
		if i >= len(got) || got[i] != want {
			t.Fatalf("%+v, want %+v at %d", got, want, i)
		}
	}
	if got := sumsOf(loadcheck.Page{}, nil, 0, 1); got != nil {
		t.Errorf("of nobody: %v", got)
	}
}

// An invalid page, and the page of a failed run, give no pictures.
func TestFailedRunsHaveNoPictures(t *testing.T) {
	dir := t.TempDir()
	page, data := filepath.Join(dir, "demo.html"), filepath.Join(dir, "run.json")
	r := recorded(t)
	r.Why = []string{"5 < 6 events"}
	check.Must(t, savePage(page, r, ""))
	check.Says(t, savePictures(page, data, dir), r.Why[0], "of a run that failed")
	check.Must(t, os.WriteFile(page, []byte("<p>none</p>"), 0o644))
	if err := savePictures(page, data, dir); err == nil {
		t.Error("of a page without a record: no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v: written nevertheless", left, err)
	}
}
