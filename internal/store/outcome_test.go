package store

import (
	"errors"
	"fmt"
	"testing"
)

func TestOutcomesMatchTheirKind(t *testing.T) {
	for kind, want := range map[Kind]struct {
		outcome error
		passes  bool
	}{
		Unavailable: {ErrUnavailable, false},
		Throttled:   {ErrUnavailable, true},
		Conflict:    {ErrUnavailable, true},
		Unknown:     {ErrUnknown, false},
		Setup:       {ErrSetup, false},
	} {
		err := fmt.Errorf("wrapped: %w", &Failure{Kind: kind, Op: "UpdateItem", Err: errors.New("x")})
		if got := Outcome(err); got != want.outcome || Passes(err) != want.passes {
			t.Errorf("%s: outcome %v, passes %t, want %v, %t", kind, got, Passes(err), want.outcome, want.passes)
		}
	}
	if Passes(errors.New("no failure of the store")) || Passes(nil) {
		t.Error("an error of another kind passes")
	}
}
