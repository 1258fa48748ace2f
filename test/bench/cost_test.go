package bench

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// TestCostsAreAsBudgeted prints the cost table of each emulator. It fails if a path costs anything
// else than its budget (I8).
func TestCostsAreAsBudgeted(t *testing.T) {
	for _, kind := range []engine.Kind{engine.Dynoxide, engine.DynamoDBLocal} {
		t.Run(string(kind), func(t *testing.T) {
			table, err := Measure(t.Context(), engine.ForTest(t, kind))
			check.Must(t, err)
			var out strings.Builder
			table.Print(&out)
			t.Logf("\n%s", out.String())
			for _, r := range table.Rows {
				if !r.OK() {
					t.Error(r)
				}
			}
		})
	}
}

// TestDifferentCostsAreNotOK: a row that costs more, or with other calls, is not OK.
func TestDifferentCostsAreNotOK(t *testing.T) {
	tests := []struct {
		name string
		row  Row
		want bool
	}{
		{"equal", Row{Budget: updates(1), Measured: updates(1)}, true},
		{"more units", Row{Budget: updates(1), Measured: Bill{Calls: updates(1).Calls, Write: 2}}, false},
		{"fewer units", Row{Budget: updates(2), Measured: Bill{Calls: updates(2).Calls, Write: 1}}, false},
		{"another call", Row{Budget: updates(1), Measured: Bill{Calls: map[string]float64{"PutItem": 1}, Write: 1}}, false},
		{"one call too many", Row{Measured: Bill{Calls: map[string]float64{"GetItem": 1}}}, false},
		{"reads below the bound", Row{AtMost: true, Budget: Bill{Read: 2.5}, Measured: Bill{Read: 0.5}}, true},
		{"reads above the bound", Row{AtMost: true, Budget: Bill{Read: 2.5}, Measured: Bill{Read: 3}}, false},
		{"reads, no bound", Row{Budget: Bill{Read: 2.5}, Measured: Bill{Read: 0.5}}, false},
	}
	for _, tt := range tests {
		check.Equal(t, tt.row.OK(), tt.want, "%s: OK", tt.name)
	}
}
