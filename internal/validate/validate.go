// Package validate checks what the callers of limiter and admin pass to them, and turns it into its
// stored form. It words errors in one way for both.
package validate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// ErrInvalid is the error of an argument that is not acceptable.
var ErrInvalid = errors.New("limiter: invalid")

// Plain is what a value is said to be in words: it is not quoted.
type Plain string

// Invalid returns an ErrInvalid about one field.
func Invalid(field string, value any, accepted string) error {
	switch s, ok := value.(string); {
	case ok && len(s) > 64:
		value = fmt.Sprintf("%q... of %d bytes", s[:64], len(s))
	case ok:
		value = fmt.Sprintf("%q", s)
	}
	return fmt.Errorf("%w: %s is %v, want %s", ErrInvalid, field, value, accepted)
}

// Table checks what a table is opened by; client says that there is one.
func Table(client bool, name string) error {
	if !client {
		return Invalid("db", Plain("nil"), "a DynamoDB client")
	}
	if name == "" {
		return Invalid("table", name, "the name of a table")
	}
	return nil
}

// Entity checks the name of an entity.
func Entity(field, s string) error {
	if layout.CheckEntity(s) != nil {
		return Invalid(field, s, layout.EntityNames)
	}
	return nil
}

// Resource checks the name of a resource.
func Resource(field, s string) error {
	if layout.CheckResource(s) != nil {
		return Invalid(field, s, layout.ResourceNames)
	}
	return nil
}

// Limits returns limits as they are stored, in order of name, or an ErrInvalid; stored
// does so for one, given its place in the list.
func Limits[L any](field string, limits []L, stored func(i int, l L) (bucket.Limit, error)) ([]bucket.Limit, error) {
	if n := len(limits); n > bucket.MaxLimits {
		return nil, Invalid(field, Plain(fmt.Sprintf("%d limits", n)), fmt.Sprintf("at most %d", bucket.MaxLimits))
	}
	out := make([]bucket.Limit, 0, len(limits))
	for i, l := range limits {
		one, err := stored(i, l)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if n := inFlight(out); n > bucket.MaxAtOnce {
		return nil, Invalid(field, Plain(fmt.Sprintf("%d in-flight limits", n)), fmt.Sprintf("at most %d", bucket.MaxAtOnce))
	}
	slices.SortFunc(out, func(a, b bucket.Limit) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			return nil, Invalid(field, Plain(fmt.Sprintf("%q twice", out[i].Name)), "every limit name once")
		}
	}
	return out, nil
}

// inFlight returns how many limits are of slots.
func inFlight(limits []bucket.Limit) (n int) {
	for _, l := range limits {
		if l.Returns() {
			n++
		}
	}
	return n
}
