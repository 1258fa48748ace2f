// Package validate checks the arguments of limiter and admin, and converts them to their stored
// form. It words errors the same way for both.
package validate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// ErrInvalid is the error of an invalid argument.
var ErrInvalid = errors.New("limiter: invalid")

// Plain is a value already put into words: it is not quoted.
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

// Table checks the arguments that open a table; client reports whether there is a client.
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

// Limits returns limits in stored form, in order of name, or an ErrInvalid; stored converts one,
// given its index in the list.
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

// inFlight counts the in-flight limits.
func inFlight(limits []bucket.Limit) (n int) {
	for _, l := range limits {
		if l.Returns() {
			n++
		}
	}
	return n
}
