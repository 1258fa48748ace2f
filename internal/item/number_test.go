package item

import (
	"math/big"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestNumeralsMatchDynamoDB(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for _, tt := range []struct{ in, want string }{
		{"0", "0"}, {"-0", "0"}, {"007", "7"}, {"+7", "7"}, {"1.50", "1.5"}, {"-.5", "-0.5"}, {"1.", "1"},
		{"1e3", "1000"}, {"1E+3", "1000"}, {"125e-2", "1.25"}, {"0e999", "0"}, {"0e99999999999999999999", "0"},
		{nines, nines}, {"-" + nines, "-" + nines}, {nines + "0", nines + "0"},
		{"1e125", "1" + strings.Repeat("0", 125)}, {"1e-130", "0." + strings.Repeat("0", 129) + "1"},
		{nines + "9", "error"}, {"1e126", "error"}, {"1e-131", "error"}, {"1e999999999999", "error"},
		{"", "error"}, {"-", "error"}, {".", "error"}, {"1/2", "error"}, {"0x10", "error"}, {"1_000", "error"},
		{"NaN", "error"}, {"Inf", "error"}, {" 1", "error"}, {"1e", "error"}, {"1e5x", "error"}, {"1ex", "error"},
		{"e5", "error"}, {"1e+", "error"}, {"1e-+5", "error"}, {"1.2.3", "error"},
		{strings.Repeat("0", 300), "error"},
	} {
		d, err := parseDecimal(tt.in)
		got := d.String()
		if err != nil {
			got = "error"
		}
		check.Equal(t, got, tt.want, "%q (%v)", tt.in, err)
	}
}

// FuzzNumber compares sums and order with exact rationals.
func FuzzNumber(f *testing.F) {
	f.Add("1", "2")
	f.Add("-1.5e-3", "99999999999999999999999999999999999999")
	f.Add("1e125", "-1e-130")
	f.Add("0x1", "1/3")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := parseDecimal(a)
		if err != nil {
			return
		}
		again, err := parseDecimal(x.String())
		if err != nil || again != x {
			t.Fatalf("%q: read as %s, which is read as %s (%v)", a, x, again, err)
		}
		y, err := parseDecimal(b)
		if err != nil {
			return
		}
		p, _ := new(big.Rat).SetString(x.String())
		q, _ := new(big.Rat).SetString(y.String())
		check.Equal(t, x.cmp(y), p.Cmp(q), "order of %s and %s", x, y)
		if z, err := x.add(y); err == nil {
			if r, _ := new(big.Rat).SetString(z.String()); r.Cmp(new(big.Rat).Add(p, q)) != 0 {
				t.Errorf("%s + %s = %s", x, y, z)
			}
		}
	})
}
