package table

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Operations of operators on buckets, in the words of Python clients.
const (
	OperationReset = "reset"
	OperationTopUp = "top_up"
	OperationRaise = "raise" // ours only
)

const (
	skOperation    = "#OP#"
	attrOperation  = "operation"
	attrWriter     = "writer"
	attrEntityLife = "ent"
	attrAmounts    = "amounts"
	attrEnds       = "ends"
	anyLife        = "-"
	// operationTTL is how long the record of an operation lasts, in seconds.
	operationTTL = 3 * 86_400
)

// Operation records that an operator's reset or top-up was carried out, and its result. The
// transaction that carries it out writes the record, on condition that no record of the same id
// exists. So an id is carried out once, by clients of either language. The record lives for three
// days.
type Operation struct {
	Namespace, Entity, Resource string
	ID                          string
	Kind                        string // OperationReset, OperationTopUp or OperationRaise
	Writer                      string // random id of the writer
	Shards                      int
	Tokens                      map[string]int64 // whole tokens, by limit
	Ends                        map[string]int64 // of a raise, epoch milliseconds by limit
	At                          int64
}

// Key returns the key of the record, in the partition of the bucket's shard 0.
func (o Operation) Key() item.Key {
	return item.Key{PK: layout.BucketKey(o.Namespace, o.Entity, o.Resource, 0).PK, SK: skOperation + o.ID}
}

// Create stores the record if there is none with its id.
func (o Operation) Create() item.Put {
	it := o.Key().Item()
	it[layout.AttrEntityID], it[layout.AttrResource] = item.S(o.Entity), item.S(o.Resource)
	it[attrOperation], it[attrWriter], it[attrEntityLife] = item.S(o.Kind), item.S(o.Writer), item.S(anyLife)
	it["shards"] = item.N(int64(o.Shards))
	for attr, by := range map[string]map[string]int64{attrAmounts: o.Tokens, attrEnds: o.Ends} {
		numbers := item.Item{}
		for limit, n := range by {
			numbers[limit] = item.N(n)
		}
		if by != nil || attr == attrAmounts {
			it[attr] = item.Map(numbers)
		}
	}
	it[layout.AttrTTL] = item.N(o.At/1000 + operationTTL)
	return item.Put{Item: layout.WithGSI4(it, o.Namespace, "OP#"+o.Entity+"#"+o.Resource+"#"+o.ID),
		If: item.Absent(item.AttrPK)}
}

// DecodeOperation decodes the record of an operation.
func DecodeOperation(it item.Item) (o Operation, err error) {
	r := item.Reader{It: it}
	o.Kind, o.Writer, o.Shards = r.Need(attrOperation), r.Str(attrWriter), int(r.Int("shards"))
	byLimit := func(attr string) map[string]int64 {
		out, numbers := map[string]int64{}, r.Entries(attr)
		for limit := range numbers {
			out[limit] = (&item.Reader{It: numbers}).Int(limit)
		}
		return out
	}
	if o.Tokens = byLimit(attrAmounts); it[attrEnds] != nil {
		o.Ends = byLimit(attrEnds)
	}
	return o, r.Named("operation")
}
