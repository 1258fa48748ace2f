package itemtest

import (
	"cmp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Matches reports whether an item is among those that the query asks for, wherever
// the page begins.
func Matches(q item.Query, it item.Item) bool {
	p, ok := text(it, q.Index+item.AttrPK)
	s, sorted := text(it, q.Index+item.AttrSK)
	return ok && sorted && p == q.PK && strings.HasPrefix(s, q.Prefix) && s >= q.From && (q.To == "" || s <= q.To)
}

// Position returns the position of an item in the query: its keys in the index and in the table.
func Position(q item.Query, it item.Item) item.Item {
	at := item.KeyOf(it).Item()
	for _, attr := range []string{item.AttrPK, item.AttrSK} {
		at[q.Index+attr] = it[q.Index+attr]
	}
	return at
}

// Compare orders two items as the query returns them. Items with the same sort
// key of an index come in the order of their own keys; DynamoDB has some order,
// too, and does not say which.
func Compare(q item.Query, a, b item.Item) int {
	x, _ := text(a, q.Index+item.AttrSK)
	y, _ := text(b, q.Index+item.AttrSK)
	k, l := item.KeyOf(a), item.KeyOf(b)
	order := cmp.Or(strings.Compare(x, y), strings.Compare(k.PK, l.PK), strings.Compare(k.SK, l.SK))
	if q.Descending {
		return -order
	}
	return order
}

func text(it item.Item, attr string) (string, bool) {
	s, ok := it[attr].(*types.AttributeValueMemberS)
	if !ok {
		return "", false
	}
	return s.Value, true
}
