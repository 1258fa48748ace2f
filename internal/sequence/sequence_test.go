package sequence_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/sequence"
)

func TestCompareIsNumeric(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"10", "10", false},
		{"0010", "11", true},
		{"0010", "10", false},
		{"4421584500000000017450439091", "4421584500000000017450439092", true},
		{"99999999999999999999", "100000000000000000000", true},
		{"", "0", true},
		{"0", "", false},
		{"", "", false},
	} {
		if got := sequence.Compare(c.a, c.b) < 0; got != c.want {
			t.Errorf("Compare(%q, %q) < 0 is %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
