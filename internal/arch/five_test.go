package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fiveFiles explain the system, in the order in which to read them. Whoever makes
// one of them longer moves out of it what another file can say.
var fiveFiles = []string{
	"limiter/doc.go",            // what it is, and which method to call
	"internal/bucket/refill.go", // the arithmetic
	"internal/table/charge.go",  // the one write
	"internal/decide/decide.go", // what the client decides
	"streams/batch.go",          // what the aggregator does with the stream of it
}

// maxFive is how many lines these files may have together.
const maxFive = 700

func TestFiveFilesExplainTheSystem(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines, at := 0, 0
	for _, name := range fiveFiles {
		source, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(source, []byte("\n"))
		i := strings.Index(string(readme[at:]), "`"+name+"`")
		if i < 0 {
			t.Errorf("the README does not name %s, in its place of the five to read", name)
			continue
		}
		at += i
	}
	if lines >= maxFive {
		t.Errorf("the five files have %d lines together, less than %d are read", lines, maxFive)
	}
}
