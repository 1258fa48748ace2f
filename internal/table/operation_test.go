package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The result of an operation is stored once per id, next to shard 0 of its bucket, for three days.
// It can be read back.
func TestOperationsAreStoredOnce(t *testing.T) {
	o := Operation{Namespace: "ns", Entity: "acme", Resource: "gpt", ID: "op-1", Kind: OperationTopUp, Writer: "w",
		Shards: 4, Tokens: map[string]int64{"rpm": 7, "tpm": -3}, At: 5000}
	put := o.Create()
	check.Equal(t, put.Target(), o.Key())
	check.Equal(t, o.Key().PK, layout.BucketKey("ns", "acme", "gpt", 0).PK)
	it := applied(t, put, nil)
	got, err := DecodeOperation(it)
	check.Must(t, err)
	check.Deep(t, got, Operation{Kind: o.Kind, Writer: o.Writer, Shards: o.Shards, Tokens: o.Tokens})
	check.Equal(t, holds(t, put, it), false, "stored twice")
	check.Equal(t, (&item.Reader{It: it}).Int(layout.AttrTTL), 5+3*86_400, "it expires at")
	o.Ends = map[string]int64{"rpm": 9, "tpm": 8}
	got, err = DecodeOperation(applied(t, o.Create(), nil))
	check.Must(t, err)
	check.Deep(t, got.Ends, o.Ends)
	delete(it, "operation")
	check.Says(t, check.Err(DecodeOperation(it)), "operation", "without a kind")
}
