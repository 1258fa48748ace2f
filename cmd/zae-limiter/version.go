package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/namespace"
)

// release is the version that programs of a release are built with; go install knows it
// without.
var release string

type shownVersion struct {
	Version, Commit, Go string
	Schema              string // of the items that it writes
}

func versionCommand(a *app) *cobra.Command {
	return a.does(&cobra.Command{
		Use: "version", Short: "show this release, and the schema of the tables that it writes",
	},
		func(*call) (answer, error) {
			v := versionOf(debug.ReadBuildInfo())
			return single(v, []string{"version", "commit", "schema", "go"}, v.Version, v.Commit, v.Schema, v.Go), nil
		})
}

// versionOf is what a build says of itself. A build outside of a release has the version "devel",
// or what the go command makes of the commit.
func versionOf(info *debug.BuildInfo, ok bool) shownVersion {
	v := shownVersion{Version: release, Schema: namespace.Schema, Go: runtime.Version()}
	if ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	return v
}
