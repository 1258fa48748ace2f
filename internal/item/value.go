package item

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Value is an attribute value.
type Value = types.AttributeValue

// Item is a whole item by attribute name.
type Item = map[string]types.AttributeValue

// S returns a string value.
func S(s string) Value { return &types.AttributeValueMemberS{Value: s} }

// N returns a number value.
func N(n int64) Value { return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)} }

// Numbers allocates the numbers of one write, and conditions on them, in a few pieces. The zero
// Numbers is ready; a nil one allocates each separately.
type Numbers struct {
	text        strings.Builder
	values      []types.AttributeValueMemberN
	comparisons []compareCond
}

// atOnce is how many numbers are allocated together.
const atOnce = 14

// Compare is the condition [Compare] on a number.
func (s *Numbers) Compare(attr string, op Op, n Value) Cond {
	if s == nil {
		return Compare(attr, op, n)
	}
	if len(s.comparisons) == cap(s.comparisons) {
		s.comparisons = make([]compareCond, 0, atOnce/2)
	}
	s.comparisons = append(s.comparisons, compareCond{attr, op, n})
	return &s.comparisons[len(s.comparisons)-1]
}

// N returns a number value.
func (s *Numbers) N(n int64) Value {
	if s == nil {
		return N(n)
	}
	if len(s.values) == cap(s.values) {
		s.values = make([]types.AttributeValueMemberN, 0, atOnce)
		s.text.Grow(atOnce * 12)
	}
	var digits [20]byte
	from := s.text.Len()
	s.text.Write(strconv.AppendInt(digits[:0], n, 10))
	s.values = append(s.values, types.AttributeValueMemberN{Value: s.text.String()[from:]})
	return &s.values[len(s.values)-1]
}

// B returns a binary value. The bytes must not be modified later.
func B(b []byte) Value { return &types.AttributeValueMemberB{Value: b} }

// Bool returns a boolean value.
func Bool(b bool) Value { return &types.AttributeValueMemberBOOL{Value: b} }

// Null returns the null value.
func Null() Value { return &types.AttributeValueMemberNULL{Value: true} }

// Map returns a map value.
func Map(m Item) Value { return &types.AttributeValueMemberM{Value: m} }

// SS returns a string set value; DynamoDB refuses an empty one.
func SS(s ...string) Value { return &types.AttributeValueMemberSS{Value: s} }

// compare orders two values of the same type like DynamoDB; ok is false if the types differ or have
// no order, and every comparison is then false.
func compare(a, b Value) (order int, ok bool) {
	switch x := a.(type) {
	case *types.AttributeValueMemberS:
		if y, ok := b.(*types.AttributeValueMemberS); ok {
			return strings.Compare(x.Value, y.Value), true
		}
	case *types.AttributeValueMemberB:
		if y, ok := b.(*types.AttributeValueMemberB); ok {
			return bytes.Compare(x.Value, y.Value), true
		}
	case *types.AttributeValueMemberN:
		if p, q, ok := smallPair(a, b); ok {
			return cmp.Compare(p, q), true
		}
		p, ok1 := number(a)
		q, ok2 := number(b)
		if ok1 && ok2 {
			return p.cmp(q), true
		}
	}
	return 0, false
}

// smallPair returns two numbers if both fit 63 bits, so adding them cannot overflow.
func smallPair(a, b Value) (x, y int64, ok bool) {
	p, ok1 := a.(*types.AttributeValueMemberN)
	q, ok2 := b.(*types.AttributeValueMemberN)
	if !ok1 || !ok2 || len(p.Value) > 18 || len(q.Value) > 18 {
		return 0, 0, false
	}
	x, err1 := strconv.ParseInt(p.Value, 10, 64)
	y, err2 := strconv.ParseInt(q.Value, 10, 64)
	return x, y, err1 == nil && err2 == nil
}

// sum adds two number values exactly, like ADD; ok is false if one is not a number, or the sum
// cannot be stored.
func sum(a, b Value) (Value, bool) {
	if x, y, ok := smallPair(a, b); ok {
		return N(x + y), true
	}
	x, ok1 := number(a)
	y, ok2 := number(b)
	if !ok1 || !ok2 {
		return nil, false
	}
	z, err := x.add(y)
	if err != nil {
		return nil, false
	}
	return &types.AttributeValueMemberN{Value: z.String()}, true
}
