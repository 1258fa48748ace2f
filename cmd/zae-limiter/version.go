package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/namespace"
)

// release is the version of release builds, set by the linker. A build by go install knows its
// version without it.
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

// versionOf returns the version of a build. Outside a release it is the go command's version for
// the commit, or "devel".
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
