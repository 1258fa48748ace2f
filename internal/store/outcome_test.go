package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/smithy-go"
)

func TestOutcomeSaysWhatIsKnown(t *testing.T) {
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
		t.Error("what is no failure of the store passes")
	}
}

// What a call ended in that was cut short is not known, whatever the SDK wraps it in: an earlier
// attempt may have arrived.
func TestCallsCutShortAreUnknown(t *testing.T) {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		wrapped := &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: cause}
		for _, err := range []error{cause, wrapped} {
			if got := KindOf(classify("UpdateItem", err)); got != Unknown {
				t.Errorf("%v is %v, want %v", err, got, Unknown)
			}
		}
	}
	unsent := &smithy.OperationError{Err: errors.New("no credentials")}
	if got := KindOf(classify("UpdateItem", unsent)); got != Unavailable {
		t.Errorf("what was not sent is %v", got)
	}
}
