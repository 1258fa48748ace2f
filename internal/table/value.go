package table

import (
	"bytes"
	"math/big"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Value is an attribute value; Item is a whole item by attribute name.
type (
	Value = types.AttributeValue
	Item  = map[string]types.AttributeValue
)

// S returns a string value.
func S(s string) Value { return &types.AttributeValueMemberS{Value: s} }

// N returns a number value.
func N(n int64) Value { return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)} }

// Bool returns a boolean value.
func Bool(b bool) Value { return &types.AttributeValueMemberBOOL{Value: b} }

// Null returns the null value.
func Null() Value { return &types.AttributeValueMemberNULL{Value: true} }

// Map returns a map value.
func Map(m Item) Value { return &types.AttributeValueMemberM{Value: m} }

// SS returns a string set value; DynamoDB refuses an empty one.
func SS(s ...string) Value { return &types.AttributeValueMemberSS{Value: s} }

// sOrNull is the form in which some records store an absent optional string.
func sOrNull(s string) Value {
	if s == "" {
		return Null()
	}
	return S(s)
}

// Key is the primary key of an item.
type Key struct{ PK, SK string }

// Item returns the key as the attributes DynamoDB wants.
func (k Key) Item() Item { return Item{AttrPK: S(k.PK), AttrSK: S(k.SK)} }

// KeyOf returns the key of an item; absent key attributes are empty.
func KeyOf(it Item) Key {
	pk, _ := it[AttrPK].(*types.AttributeValueMemberS)
	sk, _ := it[AttrSK].(*types.AttributeValueMemberS)
	var k Key
	if pk != nil {
		k.PK = pk.Value
	}
	if sk != nil {
		k.SK = sk.Value
	}
	return k
}

// number returns the exact value of a number attribute.
func number(v Value) (*big.Rat, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok || len(n.Value) > 200 {
		return nil, false
	}
	return new(big.Rat).SetString(n.Value)
}

// compare orders two values of the same type the way DynamoDB does; ok is false
// for different or unordered types, for which every comparison is false.
func compare(a, b Value) (order int, ok bool) {
	switch x := a.(type) {
	case *types.AttributeValueMemberS:
		y, ok := b.(*types.AttributeValueMemberS)
		if !ok {
			return 0, false
		}
		return bytes.Compare([]byte(x.Value), []byte(y.Value)), true
	case *types.AttributeValueMemberB:
		y, ok := b.(*types.AttributeValueMemberB)
		if !ok {
			return 0, false
		}
		return bytes.Compare(x.Value, y.Value), true
	case *types.AttributeValueMemberN:
		p, ok1 := number(a)
		q, ok2 := number(b)
		if !ok1 || !ok2 {
			return 0, false
		}
		return p.Cmp(q), true
	case *types.AttributeValueMemberBOOL:
		y, ok := b.(*types.AttributeValueMemberBOOL)
		if !ok || x.Value != y.Value {
			return 1, ok
		}
		return 0, true
	}
	return 0, false
}

// sum adds two number values, exactly, as ADD does.
func sum(a, b Value) (Value, bool) {
	x, ok1 := number(a)
	y, ok2 := number(b)
	if !ok1 || !ok2 {
		return nil, false
	}
	z := x.Add(x, y)
	if z.IsInt() {
		return &types.AttributeValueMemberN{Value: z.Num().String()}, true
	}
	prec, _ := z.FloatPrec()
	return &types.AttributeValueMemberN{Value: z.FloatString(prec)}, true
}
