package desk

import (
	"context"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// DynamoDB throttles writes to a table or a partition above its capacity. That passes within
// fractions of a second, or it lasts; then more tries make it worse.

const (
	// ThrottleRetries is how often a write is sent again for an acquire because it was
	// throttled.
	ThrottleRetries = 3
	// ThrottlePause is the longest pause before the first of them; it doubles.
	ThrottlePause = 25 * time.Millisecond
	// contentionPause is the base of the jittered pause after a transaction held the item.
	contentionPause = 2 * time.Millisecond
)

// pause waits until a write that was throttled, or met a transaction, may be sent again, and
// reports whether it may: not after other errors, not forever, and not if ctx has ended. It counts
// in throttled.
func pause(ctx context.Context, err error, sent int, throttled *int) bool {
	var d time.Duration
	switch store.KindOf(err) {
	case store.Conflict:
		d = store.Jitter(sent, 5*contentionPause, 100*contentionPause)
	case store.Throttled:
		if *throttled++; *throttled > ThrottleRetries {
			return false
		}
		d = store.Jitter(*throttled-1, ThrottlePause, 4*ThrottlePause)
	default:
		return false
	}
	return smithytime.SleepWithContext(ctx, d) == nil
}

const (
	// SettleAttempts is how often a settlement is planned, or sent while it is throttled.
	SettleAttempts = 8
	// UnavailableAttempts is how often a settlement is sent that DynamoDB did not take.
	// Nothing was written then, and nobody else will settle it.
	UnavailableAttempts = 4
)

// sentAgain pauses after a settlement that was not written, and reports whether to send it again.
func sentAgain(ctx context.Context, try int, err error) bool {
	attempts, pause, most := 2*SettleAttempts, contentionPause, 32*contentionPause
	switch kind := store.KindOf(err); {
	case kind == store.Unavailable:
		attempts, pause = UnavailableAttempts, 5*contentionPause
	case kind == store.Throttled:
		attempts, pause, most = SettleAttempts, ThrottlePause, 4*ThrottlePause
	case !store.Passes(err):
		return false
	}
	return try < attempts && smithytime.SleepWithContext(ctx, store.Jitter(try-1, pause, most)) == nil
}
