package main

import (
	"slices"
	"testing"
)

func TestBars(t *testing.T) {
	got := bars([]bar{{"a", 16}, {"bc", 8}, {"", 1}, {"d", 0}, {"e", -3}}, 4)
	want := []string{
		"a   ████  16",
		"bc  ██    8",
		"    ▎     1",
		"d         0",
		"e         -3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("bars: %q, want %q", got, want)
	}
	if got := bars([]bar{{"x", 1}, {"y", 1_000_000}}, 10)[0]; got != "x  ▏           1" {
		t.Errorf("a value that is not zero is not seen: %q", got)
	}
}
