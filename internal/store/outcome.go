package store

import "errors"

// The errors of a failed call for callers of limiter and admin. Both packages export them under the
// same names.
var (
	// ErrUnavailable means that there was no decision, and nothing was written.
	ErrUnavailable = errors.New("limiter: unavailable")
	// ErrUnknown means that there was no answer, and the write may have been applied.
	ErrUnknown = errors.New("limiter: outcome unknown")
	// ErrSetup means that DynamoDB rejects the calls as such. Nothing was written.
	ErrSetup = errors.New("limiter: not set up")
)

// Outcome returns the one of these errors that matches err.
func Outcome(err error) error {
	switch KindOf(err) {
	case Unknown:
		return ErrUnknown
	case Setup:
		return ErrSetup
	}
	return ErrUnavailable
}

// Passes reports whether nothing was written for a reason that passes within milliseconds:
// throttling, or a transaction that held the item. The same call can be repeated after a pause.
func Passes(err error) bool {
	k := KindOf(err)
	return k == Throttled || k == Conflict
}
