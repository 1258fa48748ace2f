package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettingsNameWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(file, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want settings
		errs []string // parts of the error; none: no error
	}{
		{"nothing set", nil, settings{}, nil},
		{"a trace", map[string]string{"TRACE": file}, settings{trace: file}, nil},
		{"a trace with a speed-up", map[string]string{"TRACE": file, "SPEEDUP": "12.5"},
			settings{trace: file, speedup: 12.5}, nil},
		{"no such file", map[string]string{"TRACE": "/nowhere.csv"}, settings{},
			[]string{`TRACE is "/nowhere.csv"`, "want a readable CSV file"}},
		{"a folder", map[string]string{"TRACE": t.TempDir()}, settings{}, []string{"TRACE is", "want a CSV file"}},
		{"speed-up alone", map[string]string{"SPEEDUP": "2"}, settings{}, []string{`SPEEDUP is "2"`, "TRACE is not set"}},
		{"speed-up zero", map[string]string{"TRACE": file, "SPEEDUP": "0"}, settings{},
			[]string{`SPEEDUP is "0"`, "above 0"}},
		{"speed-up NaN", map[string]string{"TRACE": file, "SPEEDUP": "NaN"}, settings{}, []string{`SPEEDUP is "NaN"`}},
		{"both wrong", map[string]string{"TRACE": "/nowhere.csv", "SPEEDUP": "fast"}, settings{},
			[]string{"TRACE is", `SPEEDUP is "fast"`, "at most 100000"}},
	} {
		got, err := settingsFrom(func(k string) string { return c.env[k] })
		if len(c.errs) == 0 && (err != nil || got != c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
		for _, part := range c.errs {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want one with %q", c.name, err, part)
			}
		}
	}
}

func TestBadSettingsEndWithoutStartingAnything(t *testing.T) {
	var out strings.Builder
	code := run(t.Context(), func(k string) string { return map[string]string{"SPEEDUP": "-1"}[k] }, &out)
	if code != 2 || !strings.HasPrefix(out.String(), `demo: FAIL SPEEDUP is "-1"`) {
		t.Errorf("status %d, output %q", code, out.String())
	}
}
