package item

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The key attributes of the table and of its indexes. DynamoDB has special rules for them.
const (
	AttrPK     = "PK"
	AttrSK     = "SK"
	AttrGSI1PK = "GSI1PK"
	AttrGSI1SK = "GSI1SK"
	AttrGSI2PK = "GSI2PK"
	AttrGSI2SK = "GSI2SK"
	AttrGSI3PK = "GSI3PK"
	AttrGSI3SK = "GSI3SK"
	AttrGSI4PK = "GSI4PK"
	AttrGSI4SK = "GSI4SK"
)

// indexKeys are the attributes that are a key of some index. If an item has one of them, it must be
// a non-empty string.
var indexKeys = []string{
	AttrGSI1PK, AttrGSI1SK, AttrGSI2PK, AttrGSI2SK, AttrGSI3PK, AttrGSI3SK, AttrGSI4PK, AttrGSI4SK,
}

// IsKeyAttr reports whether an attribute is part of the key of the table or of
// one of its indexes.
func IsKeyAttr(attr string) bool {
	return attr == AttrPK || attr == AttrSK || slices.Contains(indexKeys, attr)
}

// Key is the primary key of an item.
type Key struct{ PK, SK string }

// Item returns the key as the attributes that DynamoDB expects.
func (k Key) Item() Item {
	v := [2]types.AttributeValueMemberS{{Value: k.PK}, {Value: k.SK}}
	return Item{AttrPK: &v[0], AttrSK: &v[1]}
}

// KeyOf returns the key of an item; absent key attributes are empty.
func KeyOf(it Item) Key {
	return Key{PK: text(it[AttrPK]), SK: text(it[AttrSK])}
}

func text(v Value) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
