package desk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Of the outcomes of a cascade's levels, the caller gets the gravest, whatever their order, and of
// denials the longest.
func TestGravest(t *testing.T) {
	failure := func(kind store.Kind) error {
		return fmt.Errorf("wrapped: %w", &store.Failure{Kind: kind, Op: "UpdateItem", Err: errors.New("x")})
	}
	denied := func(do decide.Action, after int64) error {
		return &Denied{decide.Decision{Choice: decide.Choice{Do: do}, Denial: decide.Denial{After: after}}}
	}
	rising := []error{
		nil,
		failure(store.Throttled),
		failure(store.Setup),
		failure(store.Unknown),
		fmt.Errorf("wrapped: %w", table.ErrUnreadable),
		denied(decide.Deny, 0), // until its instant is known
		denied(decide.Deny, 1000),
		denied(decide.Deny, 60_000),
		fmt.Errorf("wrapped: %w", denied(decide.Never, 0)),
	}
	for i, less := range rising {
		for _, more := range rising[i+1:] {
			check.Equal(t, gravest([]error{less, more}), 1, "%v is graver than %v", less, more)
			check.Equal(t, gravest([]error{more, less}), 0, "%v, given second, is graver than %v", less, more)
			check.Equal(t, gravest([]error{less, more, less}), 1,
				"%v between two of %v is not the gravest", more, less)
		}
	}
	check.Equal(t, gravest([]error{nil, nil}), 0, "no errors")
	other := errors.New("other")
	if gravest([]error{other, failure(store.Setup)}) != 1 || gravest([]error{nil, other}) != 1 {
		t.Error("an error that says nothing of the table is graver than one that does")
	}
	lost := fmt.Errorf("%w: %w", table.ErrUnreadable, failure(store.Unknown)) // it may have been written
	unreadable := fmt.Errorf("wrapped: %w", table.ErrUnreadable)
	if gravest([]error{unreadable, lost}) != 0 || gravest([]error{lost, unreadable}) != 1 {
		t.Error("an answer that was lost is graver than a bucket that cannot be read")
	}
}
