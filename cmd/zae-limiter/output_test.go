package main

import "testing"

func TestStoredTextDoesNotSteerTheTerminal(t *testing.T) {
	if got := harmless("a\x1b[2J\tb\u009b1m\n"); got != "a?[2J\tb?1m?" {
		t.Errorf("%q", got)
	}
}
