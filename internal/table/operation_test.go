package table

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// The result of an operation is stored once per id, next to shard 0 of its bucket, for three days.
// It can be read back.
func TestOperationsAreStoredOnce(t *testing.T) {
	o := Operation{Namespace: "ns", Entity: "acme", Resource: "gpt", ID: "op-1", Kind: OperationTopUp, Writer: "w",
		Shards: 4, Tokens: map[string]int64{"rpm": 7, "tpm": -3}, At: 5000}
	put := o.Create()
	it, held, err := put.Apply(nil)
	if err != nil || !held || put.Target() != o.Key() || o.Key().PK != layout.BucketKey("ns", "acme", "gpt", 0).PK {
		t.Fatalf("%v, %v, %v", put.Target(), held, err)
	}
	got, err := DecodeOperation(it)
	want := Operation{Kind: o.Kind, Writer: o.Writer, Shards: o.Shards, Tokens: o.Tokens}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, held, _ = put.Apply(it); held {
		t.Error("stored twice")
	}
	if ttl := (&item.Reader{It: it}).Int(layout.AttrTTL); ttl != 5+3*86_400 {
		t.Errorf("it expires at %d", ttl)
	}
	o.Ends = map[string]int64{"rpm": 9, "tpm": 8}
	raise, _, _ := o.Create().Apply(nil)
	if got, err := DecodeOperation(raise); err != nil || !reflect.DeepEqual(got.Ends, o.Ends) {
		t.Errorf("%+v, %v", got, err)
	}
	delete(it, "operation")
	if _, err = DecodeOperation(it); err == nil {
		t.Error("an operation without a kind was decoded")
	}
}
