package ledger

import (
	"fmt"
	"hash/fnv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Lists of owed sums of longer usage windows are items of the reserved namespace, all under one
// partition key and in the order of their creation. They expire; a cursor stores how far they are
// counted, and the process that counts.
const (
	// OwedPK is their partition key. Policies name it.
	OwedPK = layout.TableNamespace + "/OWED#"

	skOwedCursor = "#CURSOR"
	attrOwed     = "owed"
	attrCounted  = "settled"
	attrClaimed  = "claimed"
)

// OwedList is a list of buckets whose longer usage windows have to catch up.
type OwedList struct {
	Created int64  // epoch milliseconds
	Packed  []byte // as internal/usage packs it
	TTL     int64  // epoch seconds, after which nobody needs it
}

// Put returns the write that stores the list.
func (l OwedList) Put() item.Put {
	h := fnv.New64a()
	_, _ = h.Write(l.Packed) // never fails
	it := layout.NewItem(item.Key{PK: OwedPK, SK: fmt.Sprintf("%s#%016x", owedSK(l.Created), h.Sum64())})
	it[attrOwed], it[layout.AttrTTL] = item.B(l.Packed), item.N(l.TTL)
	return item.Put{Item: item.Item(it)}
}

// OwedBetween finds the lists that were created from one instant on and before
// another, the oldest first; both are epoch milliseconds.
func OwedBetween(from, to int64) item.Query {
	return item.Query{PK: OwedPK, From: owedSK(from), To: owedSK(to)}
}

// PackedOwed returns the packed list of an item, nil if it has none.
func PackedOwed(it item.Item) []byte {
	if v, ok := it[attrOwed].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

func owedSK(ms int64) string { return fmt.Sprintf("%015d", max(0, ms)) }

// OwedCursorKey is the key of the cursor.
func OwedCursorKey() item.Key { return item.Key{PK: OwedPK, SK: skOwedCursor} }

// OwedCursor says which lists are counted: those created before Counted. Until
// Claimed somebody is at the next ones. Both are epoch milliseconds.
type OwedCursor struct{ Counted, Claimed int64 }

// DecodeOwedCursor reads the cursor; nil, or one that is not of this form, has
// counted nothing.
func DecodeOwedCursor(it item.Item) OwedCursor {
	r := item.Reader{It: it}
	return OwedCursor{r.Int(attrCounted), r.Int(attrClaimed)}
}

// Claim returns the write that claims the next lists until then. It is refused if
// the cursor is not as it was read.
func (c OwedCursor) Claim(until int64) item.Update {
	return item.Update{
		Key: OwedCursorKey(),
		Set: []item.Attr{{Name: attrClaimed, Value: item.N(until)}},
		If:  item.All(isOr0(attrCounted, c.Counted), isOr0(attrClaimed, c.Claimed)),
	}
}

// Advance returns the write that ends the claim made with until: the lists created
// before the instant counted are counted.
func (c OwedCursor) Advance(until, counted int64) item.Update {
	return item.Update{
		Key:    OwedCursorKey(),
		Set:    []item.Attr{{Name: attrCounted, Value: item.N(counted)}},
		Remove: []string{attrClaimed},
		If:     item.All(isOr0(attrCounted, c.Counted), isOr0(attrClaimed, until)),
	}
}

// isOr0 holds when the attribute has the value; none is 0.
func isOr0(attr string, n int64) item.Cond {
	if n == 0 {
		return item.Absent(attr)
	}
	return item.Compare(attr, item.Eq, item.N(n))
}
