//go:build pictures

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/browser"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// This run makes the picture of a report in docs/choosing-limits.md: make picture.
func TestPictureOfAReport(t *testing.T) {
	s := onTable(t)
	file := filepath.Join(t.TempDir(), "load.html")
	s.run(0, strings.Fields("load --rate 15 --arrivals bursts --duration 30s --limit rpm=600:20 --report "+file)...)
	p := browser.Open(t, "file://"+file, browser.Screen{Width: 800, Height: 600})
	picture := filepath.Join(engine.Root(), "..", "..", "docs", "load-report.png")
	check.Must(t, os.WriteFile(picture, p.Picture(), 0o644))
}
