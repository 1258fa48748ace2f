package browser_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
)

// Letters have different widths, so tests of a layout depend on its text. The fonts are the
// browser's own, wherever the test runs.
func TestTextHasAWidth(t *testing.T) {
	for _, family := range []string{"serif", "sans-serif", "system-ui", "monospace", "no such font"} {
		t.Run(family, func(t *testing.T) {
			p := browser.Open(t, browser.DataURL(`<style>span { font: 40px "`+family+`", `+family+` }</style>
				<span>iiii</span><br><span>WWWW</span>`), browser.Screen{Width: 390, Height: 844})
			widths := browser.Eval[[]float64](p, `[...document.querySelectorAll("span")].map(s => s.offsetWidth)`)
			if len(widths) != 2 || widths[0] < 20 || widths[1] < 2*widths[0] {
				t.Errorf("iiii and WWWW are %v pixels wide", widths)
			}
		})
	}
}

// Texts of a drawing that overlap or leave it are found. Texts that only touch are not.
func TestUnreadableTextIsFound(t *testing.T) {
	p := browser.Open(t, browser.DataURL(`<svg width="200" height="100" font-size="10">
		<text x="10" y="20">one</text><text x="12" y="24">two</text><text x="10" y="50">three</text>
		<text x="190" y="50">four</text></svg><svg width="200" height="100"><text x="10" y="20">one</text></svg>`),
		browser.Screen{Width: 390, Height: 844})
	want := []string{"one and two print over one another", "four reaches out of its drawing"}
	check.Slices(t, p.Unreadable(), want)
}
