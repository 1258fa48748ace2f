package item

import (
	"bytes"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// EqualItems reports whether two items hold the same values. A nil item and an empty one are equal.
func EqualItems(a, b Item) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; !ok || !Equal(v, w) {
			return false
		}
	}
	return true
}

// Equal reports whether two values are equal in DynamoDB: they have the same type, numbers are
// compared by value, and sets regardless of order.
func Equal(a, b Value) bool {
	if o, ok := compare(a, b); ok {
		return o == 0
	}
	switch x := a.(type) {
	case *types.AttributeValueMemberBOOL:
		y, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && x.Value == y.Value
	case *types.AttributeValueMemberNULL:
		_, ok := b.(*types.AttributeValueMemberNULL)
		return ok
	case *types.AttributeValueMemberM:
		y, ok := b.(*types.AttributeValueMemberM)
		return ok && EqualItems(x.Value, y.Value)
	case *types.AttributeValueMemberL:
		y, ok := b.(*types.AttributeValueMemberL)
		return ok && slices.EqualFunc(x.Value, y.Value, Equal)
	case *types.AttributeValueMemberSS:
		y, ok := b.(*types.AttributeValueMemberSS)
		return ok && sameSet(x.Value, y.Value, func(p, q string) bool { return p == q })
	case *types.AttributeValueMemberNS:
		y, ok := b.(*types.AttributeValueMemberNS)
		return ok && sameSet(x.Value, y.Value, func(p, q string) bool {
			d, err1 := parseDecimal(p)
			e, err2 := parseDecimal(q)
			return err1 == nil && err2 == nil && d == e
		})
	case *types.AttributeValueMemberBS:
		y, ok := b.(*types.AttributeValueMemberBS)
		return ok && sameSet(x.Value, y.Value, bytes.Equal)
	}
	return false
}

// sameSet compares sets without duplicates.
func sameSet[E any](a, b []E, same func(E, E) bool) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x E) bool {
		return !slices.ContainsFunc(b, func(y E) bool { return same(x, y) })
	})
}
