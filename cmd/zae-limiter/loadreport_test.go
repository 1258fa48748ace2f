package main

import (
	"math"
	"testing"
)

// The axes of the report end at numbers that are easy to read.
func TestAxesEndAtRoundNumbers(t *testing.T) {
	for most, want := range map[float64]float64{
		0: 1, 1: 1, 1.01: 2, 12.7: 20, 15: 20, 20: 20, 41: 60, 0.41: 0.6, 81: 100, 99.9: 100, 100: 100, 6001: 8000,
	} {
		if got := roundUp(most); math.Abs(got-want) > want/1e9 {
			t.Errorf("%v: %v, want %v", most, got, want)
		}
	}
}
