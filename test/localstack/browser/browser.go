// Package browser opens pages in a headless browser for tests: Chromium from the npm package in
// this folder, which make unpacks into .cache/browser.
package browser

import (
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// patience bounds every operation of the browser.
const patience = 3 * time.Minute

// Page is a page in a tab of a browser. It is not safe for concurrent use.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []string
	problems []string
}

// Screen is the reader's screen.
type Screen struct {
	Width, Height int64 // in CSS pixels
	Dark          bool  // the reader prefers dark colours
}

// Open shows the page at the address and returns when it has loaded. The browser ends with the
// test. It uses the fonts that come with it, and the test fails if it finds none, because a page
// without letters always fits.
func Open(t testing.TB, url string, s Screen) *Page {
	t.Helper()
	folder := filepath.Join(engine.Root(), "..", "..", ".cache", "browser")
	binary := filepath.Join(folder, "chromium")
	check.Must(t, check.Err(os.Stat(binary)), "the browser, which make browser installs")
	p := &Page{t: t}
	p.begin(binary, folder)
	scheme := "light"
	if s.Dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	check.Must(p.t, err, "browser")
	check.Must(p.t, chromedp.Do(p.ctx, chromedp.EmulateViewport(s.Width, s.Height), chromedp.Navigate(url)), "browser")
	if !Eval[bool](p, `document.createElement("canvas").getContext("2d").measureText("text").width > 0`) {
		t.Fatal("the browser finds no font: text has no width")
	}
	return p
}

// starts is the greatest number of attempts to start the browser: about one start in a thousand
// crashes in the browser's own threads, before any page is opened.
const starts = 3

// begin starts the browser.
func (p *Page) begin(binary, folder string) {
	p.t.Helper()
	for try := 1; ; try++ {
		err := p.start(binary, folder)
		if err == nil {
			return
		}
		if try == starts {
			check.Must(p.t, err, "browser")
		}
		p.t.Logf("browser, try %d: %v", try, err)
	}
}

// start starts the browser once, with an empty tab.
func (p *Page) start(binary, folder string) error {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(binary), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(p.t.TempDir()),
		chromedp.WSURLReadTimeout(patience),
		chromedp.Env("LD_LIBRARY_PATH="+filepath.Join(folder, "lib"), "FONTCONFIG_FILE="+fonts(p.t, folder)))
	ctx, stop := context.WithTimeout(p.t.Context(), patience)
	p.t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, options...)
	p.t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	p.t.Cleanup(func() { stop() })
	p.ctx = ctx
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	return err
}

// fonts writes a configuration with which the browser in the folder finds only its own fonts, and
// returns its path.
func fonts(t testing.TB, folder string) string {
	t.Helper()
	own := t.TempDir()
	path := filepath.Join(own, "fonts.conf")
	text := fmt.Sprintf("<fontconfig><dir>%s</dir><cachedir>%s</cachedir></fontconfig>",
		html.EscapeString(filepath.Join(folder, "fonts")), html.EscapeString(own))
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// listen records the requests and errors of the page.
func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *network.EventLoadingFailed:
		p.problems = append(p.problems, "not loaded: "+e.ErrorText)
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.problems = append(p.problems, "console: "+string(e.Type))
	}
}

// Requests returns the addresses that the page has requested so far, its own first.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Problems returns the page's problems so far: exceptions, console output, failed requests.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Eval returns the value of an expression in the page.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	check.Must(p.t, err, "browser: %s", expression)
	return v
}

// Picture returns the whole page as a PNG.
func (p *Page) Picture() []byte {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	check.Must(p.t, err, "browser")
	return png
}

// crossing finds texts in drawings that overlap or extend beyond their drawing.
const crossing = `[...document.querySelectorAll("svg")].flatMap(svg => {
	const outer = svg.getBoundingClientRect(), out = [];
	const all = [...svg.querySelectorAll("text")].map(e => ({b: e.getBoundingClientRect(), s: e.textContent}));
	all.forEach(({b, s}, i) => {
		if (b.left < outer.left || b.right > outer.right || b.top < outer.top || b.bottom > outer.bottom)
			out.push(s + " reaches out of its drawing");
		for (const other of all.slice(i + 1)) {
			const c = other.b;
			if (b.left < c.right && c.left < b.right && b.top < c.bottom && c.top < b.bottom)
				out.push(s + " and " + other.s + " print over one another");
		}
	});
	return out })`

// Unreadable returns the faults of the page's drawings: overlapping texts, and texts that extend
// beyond their drawing.
func (p *Page) Unreadable() []string {
	p.t.Helper()
	return Eval[[]string](p, crossing)
}

// DataURL returns an address with the page as its content.
func DataURL(page string) string {
	return "data:text/html;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(page))
}
