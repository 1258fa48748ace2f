package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Everything that other clients keep in the metadata of an entity is read, nothing included.
func TestMetadataOfOtherClients(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	it := w.db.Item(layout.EntityKey(w.ns.ID(), "acme"))
	it["metadata"] = &types.AttributeValueMemberM{Value: item.Item{"none": item.Null(), "n": item.N(3),
		"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberB{Value: []byte("b")}, item.S("x")}},
		"bytes":    &types.AttributeValueMemberB{Value: []byte("b")},
		"set":      item.SS("y"),
		"thousand": &types.AttributeValueMemberN{Value: "1E3"}, "whole": &types.AttributeValueMemberN{Value: "7.0"},
		"half": &types.AttributeValueMemberN{Value: "0.5"}, "much": &types.AttributeValueMemberN{Value: "1E30"},
		"map": &types.AttributeValueMemberM{Value: item.Item{"yes": item.Bool(true)}}}}
	w.db.Store(it)
	e, err := w.ns.Entity(t.Context(), "acme")
	w.must(err)
	want := map[string]any{"none": nil, "n": int64(3), "list": []any{"x"}, "set": []string{"y"},
		"thousand": int64(1000), "whole": int64(7), "half": 0.5, "much": 1e30, "map": map[string]any{"yes": true}}
	if !reflect.DeepEqual(map[string]any(e.Metadata), want) {
		t.Errorf("metadata %+v", e.Metadata)
	}
	w.create(Entity{ID: "list", Metadata: map[string]any{"tags": []string{"a", "b"}, "n": 5,
		"json": []any{json.Number("9223372036854775807"), json.Number("1.50"), json.Number("1e20")}}})
	e, err = w.ns.Entity(t.Context(), "list")
	want = map[string]any{"tags": []any{"a", "b"}, "n": int64(5), "json": []any{int64(math.MaxInt64), 1.5, 1e20}}
	if err != nil || !reflect.DeepEqual(e.Metadata, want) {
		t.Errorf("metadata %+v, %v", e.Metadata, err)
	}
	for _, number := range []json.Number{"9223372036854775808", "1e400", "1e+126", "x", ""} {
		_, err := w.ns.CreateEntity(t.Context(), Entity{ID: "odd", Metadata: map[string]any{"n": number}})
		check.Says(t, err, fmt.Sprintf("Metadata.n is %s, want a number", number))
	}
}
