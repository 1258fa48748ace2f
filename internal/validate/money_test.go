package validate

import "testing"

// Dollars have two digits behind the point, or all that they need.
func TestDollars(t *testing.T) {
	for n, want := range map[int64]string{
		0: "$0", 1: "$0.000001", 60_000: "$0.06", 500_000: "$0.50", 12_500_000: "$12.50", 12_345_678: "$12.345678",
		500_000_000: "$500", -1_500_000: "-$1.50", 1<<63 - 1: "$9223372036854.775807",
		-1 << 63: "-$9223372036854.775808",
	} {
		if got := Dollars(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// The name of a quota says whether it counts dollars.
func TestNamesOfMoney(t *testing.T) {
	for name, want := range map[string]bool{
		"budget": true, "spend": true, "spend_usd": true, "team-budget": true, "USD": true,
		"usd.monthly": true, "dollars": true, "dollar": true, "money": true,
		"rpm": false, "tpm": false, "cost": false, "token-budget": false, "budget_tokens": false, "suspend": false,
		"rebudgeted": false, "budget.token": false, "Tokens_usd": false,
	} {
		if got := InDollars(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
