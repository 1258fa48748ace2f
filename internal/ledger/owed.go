package ledger

import (
	"fmt"
	"hash/fnv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Lists of owed sums of longer usage windows are items of the reserved namespace, all under one
// partition key and in order of creation. They expire. A cursor stores up to where they are
// counted, and which process is counting.
const (
	// OwedPK is their partition key. Policies refer to it.
	OwedPK = layout.TableNamespace + "/OWED#"

	skOwedCursor = "#CURSOR"
	attrOwed     = "owed"
	attrCounted  = "settled"
	attrClaimed  = "claimed"
)

// OwedList is a list of buckets whose longer usage windows are out of date.
type OwedList struct {
	Created int64  // epoch milliseconds
	Packed  []byte // encoded by internal/usage
	TTL     int64  // epoch seconds, from which on the list is not needed any more
}

// Put returns the write that stores the list.
func (l OwedList) Put() item.Put {
	h := fnv.New64a()
	_, _ = h.Write(l.Packed) // never fails
	it := item.Key{PK: OwedPK, SK: fmt.Sprintf("%s#%016x", owedSK(l.Created), h.Sum64())}.Item()
	it[attrOwed], it[layout.AttrTTL] = item.B(l.Packed), item.N(l.TTL)
	return item.Put{Item: it}
}

// OwedBetween finds the lists created at or after one instant and before another, oldest first;
// both are epoch milliseconds.
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

// OwedCursor records which lists are counted: those created before Counted. Until Claimed, a
// process is counting the next ones. Both are epoch milliseconds.
type OwedCursor struct{ Counted, Claimed int64 }

// DecodeOwedCursor decodes the cursor. A nil or invalid one has counted nothing.
func DecodeOwedCursor(it item.Item) OwedCursor {
	r := item.Reader{It: it}
	return OwedCursor{r.Int(attrCounted), r.Int(attrClaimed)}
}

// Claim returns the write that claims the next lists until an instant. It is refused if the cursor
// has changed since it was read.
func (c OwedCursor) Claim(until int64) item.Update {
	return item.Update{
		Key: OwedCursorKey(),
		Set: []item.Attr{{Name: attrClaimed, Value: item.N(until)}},
		If:  item.All(isOr0(attrCounted, c.Counted), isOr0(attrClaimed, c.Claimed)),
	}
}

// Advance returns the write that ends the claim made with until, and marks the lists created before
// counted as counted.
func (c OwedCursor) Advance(until, counted int64) item.Update {
	return item.Update{
		Key:    OwedCursorKey(),
		Set:    []item.Attr{{Name: attrCounted, Value: item.N(counted)}},
		Remove: []string{attrClaimed},
		If:     item.All(isOr0(attrCounted, c.Counted), isOr0(attrClaimed, until)),
	}
}

// isOr0 holds if the attribute has the value; an absent one counts as 0.
func isOr0(attr string, n int64) item.Cond {
	if n == 0 {
		return item.Absent(attr)
	}
	return item.Compare(attr, item.Eq, item.N(n))
}
