package cdk

import "testing"

// TestVersionsShareNoProgram: each version's source has its own folder in the module cache, and so
// do its programs.
func TestVersionsShareNoProgram(t *testing.T) {
	seen := map[string]bool{}
	for _, source := range []string{"/mod/zae-limiter-go@v0.9.0", "/mod/zae-limiter-go@v0.10.0"} {
		for _, function := range []string{"aggregator", "archiver"} {
			folder := programFolder("/cache", source, function)
			if seen[folder] || folder != programFolder("/cache", source, function) {
				t.Errorf("%s of %s is built to %s", function, source, folder)
			}
			seen[folder] = true
		}
	}
}
