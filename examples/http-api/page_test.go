package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
)

// The page in a browser: its bucket drains with a burst, shows what is denied, refills
// while nobody does anything, and follows what the server says again.
func TestPage(t *testing.T) {
	table := limitertest.New(t)
	srv := httptest.NewServer(handler(table.Limiter(nil)))
	defer srv.Close()
	p := browser.Open(t, srv.URL, browser.Screen{Width: 800, Height: 700})
	level := func() float64 {
		return browser.Eval[float64](p, `Number(document.querySelector("[data-limit=requests]")?.dataset.level ?? -1)`)
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for !done() { // the browser's own patience is the bound
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("%s: %.2f of 10 requests", what, level())
	}
	until("loaded", func() bool { return level() >= 9 })
	browser.Eval[bool](p, `document.getElementById("burst").click() ?? true`)
	until("drained", func() bool {
		return browser.Eval[int](p, `document.querySelectorAll("#log .denied").length`) == 6 // 1 + 15 of 10
	})
	if got := browser.Eval[string](p, `document.querySelector("#log .denied").textContent`); got !=
		`429 "credits";r=150;t=1, "requests";r=0;t=1 Retry-After: 1` {
		t.Errorf("the last answer is shown as %s", got)
	}
	drained := level()
	until("refilled", func() bool { return level() > drained+1 })
	table.Advance(7 * time.Second)
	browser.Eval[bool](p, `document.getElementById("one").click() ?? true`)
	until("one more", func() bool { // 7 have come back, one is taken
		return browser.Eval[string](p, `document.querySelector("#log div").textContent`) ==
			`200 "credits";r=195;t=1, "requests";r=6;t=1` && level() >= 6 // drawn with the next frame
	})
	width := browser.Eval[float64](p, `(e => 10 * e.offsetWidth / e.parentElement.clientWidth)(`+
		`document.querySelector("[data-limit=requests] .fill"))`)
	if l := level(); l < 6 || width < 6 || width > l+.1 {
		t.Errorf("%.2f of 10 are shown as a bar of %.2f", l, width)
	}
	for _, problem := range p.Problems() {
		t.Error(problem)
	}
}
