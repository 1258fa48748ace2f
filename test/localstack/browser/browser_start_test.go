package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

func TestCrashedBrowsersAreStartedAgain(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join(engine.Root(), "..", "..", ".cache", "browser"))
	check.Must(t, err)
	own := t.TempDir()
	binary, crashed := filepath.Join(own, "chromium"), filepath.Join(own, "crashed")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %q ] || { touch %q; exit 139; }\nexec %q \"$@\"\n", crashed, crashed,
		filepath.Join(folder, "chromium"))
	check.Must(t, os.WriteFile(binary, []byte(script), 0o700))
	p := &Page{t: t}
	p.begin(binary, folder)
	if _, err := os.Stat(crashed); err != nil || Eval[int](p, "1 + 1") != 2 {
		t.Errorf("the browser does not answer, or has not crashed: %v", err)
	}
}
