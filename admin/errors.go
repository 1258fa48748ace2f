package admin

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// What may be wrong with the state that a call meets.
var (
	// ErrNotFound: the subject of the call does not exist.
	ErrNotFound = errors.New("admin: not found")
	// ErrExists: the entity that the call creates exists already.
	ErrExists = errors.New("admin: exists already")
	// ErrParent: the parent of an entity does not exist, or would close a circle of parents, which
	// the error names.
	ErrParent = errors.New("admin: unusable parent")
	// ErrState: the namespace is not in a state that allows this: only an active one can be
	// deleted, only a deleted one recovered or purged, and recovered only while its name is free.
	ErrState = errors.New("admin: namespace in another state")
	// ErrConfig: the configuration of a scope cannot be read, or is not supported here, such as the
	// schedule of a quota; the error names scope, attribute and accepted values. Requests under it
	// are limiter.ErrInvalid. SetLimits replaces all of it, and DeleteLimits removes all of it.
	ErrConfig = errors.New("admin: limits that are not served")
	// ErrBusy: others kept changing the same thing, and their change stays. Nothing was changed,
	// except by calls that say that they work in steps. It can be tried again.
	ErrBusy = errors.New("admin: changed by others at the same time")
	// ErrReach: limits are stored, but some existing buckets do not have them yet.
	// [Namespace.Reach] continues with them.
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
