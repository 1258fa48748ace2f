package cli

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// dashboard serves the page of the table, and returns its address. The test ends it by an
// interrupt, which must succeed.
func (s *shell) dashboard() string {
	s.Helper()
	cmd := exec.Command(binary, "dashboard", "--http", "localhost:0")
	cmd.Env = s.env
	errs, err := cmd.StderrPipe()
	check.Must(s, err)
	check.Must(s, cmd.Start())
	address, err := bufio.NewReader(errs).ReadString('\n')
	check.Must(s, err, "%q", address)
	s.Cleanup(func() {
		check.NoError(s, cmd.Process.Signal(os.Interrupt))
		check.NoError(s, cmd.Wait(), "interrupted")
	})
	return strings.TrimSpace(address) + "/"
}

// faint finds texts with a contrast below 4.5.
const faint = `(() => {
	const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(v => v / 255)
		.map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b };
	const paper = light(getComputedStyle(document.body).backgroundColor);
	return [...document.querySelectorAll("h1, h2, p, th, td, a, label")].filter(e => {
		const ink = light(getComputedStyle(e).color);
		return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05) < 4.5 }).map(e => e.tagName) })()`

// budgets are the rows of the page's first table, with the link of each name.
const budgets = `[...document.querySelector("tbody").rows].map(r =>
	[...r.cells].slice(0, 6).map(c => c.textContent)
		.concat(new URL(r.querySelector("a").href).searchParams.get("entity")))`

// The page of budgets and limits is readable on a phone and a desktop, by day and by night,
// whatever the tenants' names. It loads nothing else.
func TestDashboard(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	table := e.Table(t).Name
	s := newShell(t, e, table)
	s.run(0, "namespace", "register", "default")
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=600", "budget=$500@monthly")
	names := []string{"acme", `<script>document.title="taken"</script>`, `"><img src=x onerror=alert(1)>`,
		"שלום עליכם", "a&b=c#d?e%20+f", strings.Repeat("W", 512)}
	l, err := limiter.Open(t.Context(), e.DynamoDB(), table, &limiter.Options{Timeout: time.Minute})
	check.Must(t, err)
	for _, name := range names {
		ask := limiter.Request{Entity: name, Resource: "gpt-4",
			Costs: limiter.Costs{"rpm": 1, "budget": limiter.USD(125)}}
		check.Must(t, check.Err(l.Acquire(t.Context(), ask)))
	}
	address := s.dashboard()
	for _, screen := range []browser.Screen{{Width: 390, Height: 800}, {Width: 1400, Height: 900, Dark: true}} {
		p := browser.Open(t, address, screen)
		check.Equal(t, browser.Eval[string](p, `document.title`), "Limits of default", "the title")
		if wide := browser.Eval[int64](p, `document.documentElement.scrollWidth`); wide > screen.Width {
			t.Errorf("the page is %d wide on %d", wide, screen.Width)
		}
		if got := browser.Eval[[]string](p, faint); len(got) > 0 {
			t.Errorf("dark %v: too faint to read: %q", screen.Dark, got)
		}
		rows := browser.Eval[[][]string](p, budgets)
		for _, name := range names {
			want := []string{name, "gpt-4", "budget", "25%", "$375", "$500", name}
			if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
				t.Errorf("there is no row %q in %q", want, rows)
			}
		}
		check.Slices(t, p.Requests(), []string{address}, "what the page asks for")
		if got := p.Problems(); len(got) > 0 {
			t.Errorf("the browser complains: %q", got)
		}
	}
}
