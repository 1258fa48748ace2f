package item

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// validateValue returns an error for a value that DynamoDB cannot store, nested in depth maps and
// lists.
func validateValue(v Value, depth int) error {
	switch v := v.(type) {
	case *types.AttributeValueMemberS, *types.AttributeValueMemberB, *types.AttributeValueMemberBOOL:
		return nil
	case *types.AttributeValueMemberNULL:
		if !v.Value {
			return errors.New("null must be true")
		}
		return nil
	case *types.AttributeValueMemberN:
		_, err := parseDecimal(v.Value)
		return numeralError(v.Value, err)
	case *types.AttributeValueMemberSS:
		return validateSet(v.Value, func(s string) (string, error) { return s, nil })
	case *types.AttributeValueMemberBS:
		return validateSet(v.Value, func(b []byte) (string, error) { return string(b), nil })
	case *types.AttributeValueMemberNS:
		return validateSet(v.Value, func(s string) (string, error) {
			d, err := parseDecimal(s)
			return d.String(), numeralError(s, err)
		})
	case *types.AttributeValueMemberL:
		if depth == maxNesting {
			return errNested
		}
		for _, e := range v.Value {
			if err := validateValue(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	case *types.AttributeValueMemberM:
		if depth == maxNesting {
			return errNested
		}
		for name, e := range v.Value {
			if name == "" {
				return errors.New("map with an empty name")
			}
			if err := validateValue(e, depth+1); err != nil {
				return fmt.Errorf("entry %q: %w", name, err)
			}
		}
		return nil
	}
	return fmt.Errorf("%T is no value", v)
}

var errNested = fmt.Errorf("maps and lists nested deeper than %d", maxNesting)

func numeralError(s string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("number %q: %w", strings.ToValidUTF8(s[:min(len(s), 64)], "?"), err)
}

func validateSet[E any](set []E, id func(E) (string, error)) error {
	if len(set) == 0 {
		return errors.New("empty set")
	}
	seen := make(map[string]bool, len(set))
	for _, e := range set {
		s, err := id(e)
		if err != nil {
			return err
		}
		if seen[s] {
			return fmt.Errorf("set with %q twice", s)
		}
		seen[s] = true
	}
	return nil
}
