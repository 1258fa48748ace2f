package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// manifestOf returns a manifest with limits for n entities.
func manifestOf(n int) []byte {
	var b strings.Builder
	b.WriteString("namespace: a\nentities:\n")
	for i := range n {
		fmt.Fprintf(&b, "  tenant-%05d:\n    resources:\n", i)
		b.WriteString("      gpt-4: {limits: {rpm: {capacity: 10}, tpm: {capacity: 100}}}\n")
	}
	return []byte(b.String())
}

// work returns how many bytes a function allocates, which every step of a parser
// does.
func work(f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// Four times the entities are about four times the work.
func TestReadingIsLinear(t *testing.T) {
	read := func(n int) float64 {
		text := manifestOf(n)
		return work(func() {
			if m, err := Parse(text); err != nil || len(m.Scopes) != n {
				t.Fatalf("%d scopes, %v", len(m.Scopes), err)
			}
		})
	}
	if few, many := read(250), read(1000); many > 5*few {
		t.Errorf("250 entities take %.0f KB, 1000 take %.0f KB", few/1000, many/1000)
	}
}

func BenchmarkParse50000(b *testing.B) {
	text := manifestOf(50_000)
	for b.Loop() {
		check.Must(b, check.Err(Parse(text)))
	}
}
