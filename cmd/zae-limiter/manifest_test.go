package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestManifests(t *testing.T) {
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("namespace: default\nsystem: {on_unavailable: allow, limits: {rpm: {capacity: 100}}}\n" +
		"resources: {gpt-4: {limits: {tpm: {capacity: 500}}}}\n")
	s.says(3, "plan "+file, "+ create */gpt-4", "+ tpm: 500 per 1m0s", "on unavailable: allow", "2 changes")
	s.says(1, "apply "+file, "nothing was changed", "--yes")
	s.stdin = "n\n"
	s.says(1, "apply "+file, "not confirmed")
	s.stdin = "y\n"
	s.says(0, "apply "+file, "2 changes applied")
	s.says(0, "plan "+file, "nothing to change")
	s.says(0, "policy get", "allow")

	write("namespace: default\nsystem: {limits: {rpm: {capacity: 200}}}\n")
	s.says(3, "plan "+file, "~ update */*", "- rpm: 100 per 1m0s", "+ rpm: 200 per 1m0s", "- delete */gpt-4")
	text, _ := s.run(3, "plan", file, "-o", "json")
	var plan struct {
		Changes int
		Steps   []struct{ Action string }
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil || plan.Changes != 2 || len(plan.Steps) != 2 {
		t.Errorf("%s: %v", text, err)
	}
	s.says(2, "plan "+file+" -n other", "the manifest is for namespace")
	s.says(0, "apply --yes "+file, "2 changes applied")
	s.says(1, "plan no-such-file", "there is no file")
	write("namespace: default\nnovelty: 1\n")
	s.says(2, "plan "+file, "novelty")
	s.stdin = "namespace: default\nsystem: {limits: {rpm: {capacity: 300}}}\n"
	s.says(2, "apply -", "--yes is needed")
	s.says(0, "apply - -y", "1 changes applied")
}
