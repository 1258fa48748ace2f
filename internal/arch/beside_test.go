package arch

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// alone are names of test files that need no file of their package: examples, what tests get to
// see, worlds that are played, and what several test files need.
var alone = []string{"example", "export", "helpers", "world"}

// The tests of x.go are in x_test.go, or in x_topic_test.go where there are many. A file that
// tests a whole package is called like the package: bucket_oracle_test.go. Not looked at are
// packages without code, the infrastructure, whose tests are about the template, and the modules
// of examples and tests.
func TestTestsAreNamedAfterTheirSource(t *testing.T) {
	names := map[string][]string{} // of code by folder
	tests := map[string][]string{}
	for _, f := range files(t) {
		folder, name := path.Split(filepath.ToSlash(f.path))
		folder = path.Clean(folder)
		switch first, _, _ := strings.Cut(folder, "/"); {
		case contains([]string{"infra", "examples", "test"}, first):
		case f.test():
			tests[folder] = append(tests[folder], strings.TrimSuffix(name, "_test.go"))
		case name != "doc.go":
			names[folder] = append(names[folder], strings.TrimSuffix(name, ".go"))
		}
	}
	looked := 0
	for _, folder := range slices.Sorted(maps.Keys(tests)) {
		if len(names[folder]) == 0 {
			continue
		}
		for _, test := range tests[folder] {
			looked++
			if !isBeside(test, slices.Concat(names[folder], alone, []string{path.Base(folder)})) {
				t.Errorf("%s/%s_test.go: no file %s.go is there, which it would test", folder, test, test)
			}
		}
	}
	if looked < 200 {
		t.Errorf("only %d files of tests looked at", looked)
	}
}

// isBeside reports whether a file of tests is called like one of the names, or like one with a
// topic.
func isBeside(test string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return test == name || strings.HasPrefix(test, name+"_")
	})
}
