package desk

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/decide"
)

// Others may have missed the tokens of an attempt if it made a call of any kind, unless it stands
// in line.
func TestOthersMayMissTokensOfAnAttemptThatCalls(t *testing.T) {
	for name, c := range map[string]struct {
		did       decide.Attempt
		emulatorg bool
		kept      bool
	}{
		"no call":         {decide.Attempt{}, false, false},
		"a call":          {decide.Attempt{Calls: 1}, false, true},
		"a round trip":    {decide.Attempt{Trips: 1}, false, true},
		"many":            {decide.Attempt{Calls: 2, Trips: 2}, false, true},
		"one in the line": {decide.Attempt{Calls: 1, Trips: 1}, true, false},
	} {
		a := &Attempt{Waiter: decide.Waiter{Attempt: c.did}, Standing: c.emulatorg}
		if got := a.kept(); got != c.kept {
			t.Errorf("%s: %v", name, got)
		}
	}
}
