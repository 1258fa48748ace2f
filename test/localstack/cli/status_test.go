package cli

import "testing"

// Status reports a healthy table whose stream has no reader. Problems are tested in
// cmd/zae-limiter.
func TestStatus(t *testing.T) {
	s := onTable(t)
	s.says(0, "status", "ACTIVE", "as it must be", "schema 0.9.0", "default", "ENABLED NEW_AND_OLD_IMAGES",
		"functions none local")
	type status struct {
		OK    bool
		Parts []struct {
			Part, State string
			OK          bool
			Figures     map[string]any
		}
	}
	got := prints[status](s, "status")
	if !got.OK || len(got.Parts) != 6 || got.Parts[4].Part != "stream" || got.Parts[4].Figures["shards"] != 1.0 {
		t.Errorf("status: %+v", got)
	}
	s.says(1, "status -t no-such-table", "There is no table", "zae-limiter table create")
}
