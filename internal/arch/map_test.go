package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deep are the folders of which the project map names the folders in them.
var deep = []string{"internal", "functions", "cmd", "infra", "test"}

// Whoever looks for a folder finds it on the project map, and nothing that is gone.
func TestTheProjectMapNamesEveryFolder(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "project-map.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files(t) {
		parts := strings.Split(filepath.ToSlash(f.folder), "/")
		folder := parts[0]
		if contains(deep, folder) && len(parts) > 1 {
			folder += "/" + parts[1]
		}
		if !strings.Contains(string(text), "`"+folder+"/") {
			t.Errorf("%s is in no folder that docs/project-map.md names", f.path)
		}
	}
	for _, cell := range strings.Split(string(text), "`") {
		if folder, ok := strings.CutSuffix(cell, "/"); ok && !strings.ContainsAny(folder, " |") {
			if _, err := os.Stat(filepath.Join(root(t), folder)); err != nil {
				t.Errorf("docs/project-map.md names %s, which does not exist", cell)
			}
		}
	}
}
