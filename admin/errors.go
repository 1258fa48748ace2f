package admin

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// What may be wrong with the state that a call meets.
var (
	// ErrNotFound: what the call is about does not exist.
	ErrNotFound = errors.New("admin: not found")
	// ErrExists: what the call creates exists already.
	ErrExists = errors.New("admin: exists already")
	// ErrParent: the parent of an entity does not exist, or it and those above it would be a
	// circle, which the error names.
	ErrParent = errors.New("admin: unusable parent")
	// ErrState: the namespace is not in a state that allows this: only an active one
	// can be deleted, only a deleted one recovered or purged, and recovered only while
	// its name is free.
	ErrState = errors.New("admin: namespace in another state")
	// ErrConfig: the configuration of a scope cannot be read, or is not served here, as the schedule of
	// a quota; the error names scope, attribute and accepted values. Requests that it is for
	// are limiter.ErrInvalid. SetLimits replaces it and DeleteLimits removes it, all of it.
	ErrConfig = errors.New("admin: limits that are not served")
	// ErrBusy: others kept changing what the call changes, and theirs stays. Nothing was
	// changed, but for what the call says it does in steps. It can be tried again.
	ErrBusy = errors.New("admin: changed by others at the same time")
	// ErrReach: limits are stored, but some buckets that exist do not have them yet.
	// [Namespace.Reach] goes on with them.
	ErrReach = errors.New("admin: limits are stored, but not in all buckets")
)

// fail wraps an error with the name of the operation. Failures of the store become the
// limiter's errors of outcome; other errors have theirs already.
func fail(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	op := fmt.Sprintf(format, args...)
	if store.KindOf(err) == 0 {
		return fmt.Errorf("%s: %w", op, err)
	}
	return fmt.Errorf("%w: %s: %w", store.Outcome(err), op, err)
}
