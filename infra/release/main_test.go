package main

import "testing"

func TestVersionsThatAreNone(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.1.0.0", "v0.1.0-beta", "v0.1.0 "} {
		if err := (&run{root: ".", version: version}).ready(t.Context()); err == nil {
			t.Errorf("%q is accepted", version)
		}
	}
}
