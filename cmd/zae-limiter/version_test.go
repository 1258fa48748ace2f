package main

import (
	"runtime/debug"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// What was built in a release says its version, what go install has built that of its
// module, and anything else that it is none.
func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}
	for _, tt := range []struct{ release, module, want string }{
		{"v0.1.0", "", "v0.1.0"}, {"v0.1.0", "(devel)", "v0.1.0"}, {"", "v0.1.0", "v0.1.0"}, {"", "(devel)", "devel"},
		{"", "", "devel"},
	} {
		release, info.Main.Version = tt.release, tt.module
		if got := versionOf(info, true); got.Version != tt.want || got.Commit != "abc" ||
			got.Schema != "0.9.0" {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
	release = ""
	check.Equal(t, versionOf(nil, false).Version, "devel", "without knowledge")
}
