package store

import "errors"

// The errors of a failed call for callers of limiter and admin; both export them under the same
// names.
var (
	// ErrUnavailable: no decision, nothing was written.
	ErrUnavailable = errors.New("limiter: unavailable")
	// ErrUnknown: no answer, the write may have been applied.
	ErrUnknown = errors.New("limiter: outcome unknown")
	// ErrSetup: DynamoDB rejects the calls as such. Nothing was written.
	ErrSetup = errors.New("limiter: not set up")
)

// Outcome returns the one of these errors that describes err.
func Outcome(err error) error {
	switch KindOf(err) {
	case Unknown:
		return ErrUnknown
	case Setup:
		return ErrSetup
	}
	return ErrUnavailable
}

// Passes reports whether nothing was written for a reason that passes within
// milliseconds: DynamoDB slowed us down, or a transaction held the item. The same call
// can be sent again after a pause.
func Passes(err error) bool {
	k := KindOf(err)
	return k == Throttled || k == Conflict
}
