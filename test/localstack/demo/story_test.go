package main

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// Faults are grouped by kind, in the order of their first occurrence.
func TestFaultsByKind(t *testing.T) {
	got := byKind([]incident{
		{1, answersLost}, {2, batchRepeated}, {3, answersLost}, {4, batchRepeated}, {9, tableAway},
	}, 8)
	want := []faults{{answersLost, []float64{1, 3}}, {batchRepeated, []float64{2, 4}}}
	check.Deep(t, got, want)
}

// A grant counts in the phase of its request. A much later request adds neither itself nor the
// refill until then.
func TestGrantsOfAPhase(t *testing.T) {
	l := new(clients.Book)
	for _, at := range []int64{1000, 3000, 9000} {
		l.Granted(loadcheck.Account{Entity: "a", Resource: "gpt", Limit: "rps"},
			loadcheck.Rule{From: at, To: at + 1000, Capacity: 10, Amount: 1, Period: 1000}, 2)
	}
	for _, c := range []struct {
		phases []int64
		want   grants
	}{
		{[]int64{5000, 20_000}, grants{"a", "gpt", "rps", 4, 13}},
		{[]int64{500, 10_000}, grants{"a", "gpt", "rps", 6, 19}},
		{[]int64{500}, grants{"a", "gpt", "rps", 6, 19}},
	} {
		if got := grantsOf(l, c.phases...); len(got) != 1 || got[0] != c.want {
			t.Errorf("phases until %v: %+v, want %+v", c.phases, got, c.want)
		}
	}
}

// A margin says on which side of the bound the value is, without a sign.
func TestMargin(t *testing.T) {
	for excess, want := range map[float64]string{
		-14.382: "14.4 tokens below its bound", 0: "0 tokens below its bound",
		-0.001: "0.001 tokens below its bound", 3: "3 tokens above its bound",
	} {
		check.Equal(t, margin(excess), want, "%v", excess)
	}
}
