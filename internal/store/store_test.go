package store_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Errors name the failed call, its kind and its cause. Refusals name the item.
func TestErrorsNameCallKindAndCause(t *testing.T) {
	cause := errors.New("why")
	for want, err := range map[string]error{
		"Op: unavailable: why":            &store.Failure{Kind: store.Unavailable, Op: "Op", Err: cause},
		"Op: not set up: why":             &store.Failure{Kind: store.Setup, Op: "Op", Err: cause},
		"Op: throttled: why":              &store.Failure{Kind: store.Throttled, Op: "Op", Err: cause},
		"Op: conflict: why":               &store.Failure{Kind: store.Conflict, Op: "Op", Err: cause},
		"Op: unknown: why":                &store.Failure{Kind: store.Unknown, Op: "Op", Err: cause},
		"Op: bug: no kind: why":           &store.Failure{Op: "Op", Err: cause},
		"condition refused: no such item": &store.Refused{},
		`condition refused by item "p"`:   &store.Refused{Old: item.Key{PK: "p", SK: "s"}.Item()},
		"transaction refused":             &store.Canceled{},
	} {
		check.Equal(t, err.Error(), want)
		if f, ok := err.(*store.Failure); ok && (!errors.Is(err, cause) || store.KindOf(err) != f.Kind) {
			t.Errorf("%q does not wrap its cause, or its kind is %v", err, store.KindOf(err))
		}
	}
}
