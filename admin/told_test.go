package admin

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Deleting an entity tells how many items it has removed: its description, limits and
// buckets, here one of each.
func TestDeletingAnEntityTellsHowMuch(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	w.set(Scope{"acme", "gpt-4"}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	if n, err := w.ns.DeleteEntity(t.Context(), "acme"); n != 3 || err != nil {
		t.Errorf("removed %d, %v, want 3", n, err)
	}
}

// A limit that blocks leaves nothing, whatever it is stored with.
func TestPeekAtABlockedLimit(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "gpt-4"}, limiter.Blocked("rpm"))
	got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	w.must(err)
	if l := got[0].Levels; len(l) != 1 || !l[0].Limit.IsBlocked() || l[0].Remaining != 0 {
		t.Errorf("levels %+v", l)
	}
}

// Everything that other clients keep in the metadata of an entity is read, nothing included.
func TestMetadataOfOtherClients(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "acme"})
	it := w.db.Item(table.EntityKey(w.ns.ID(), "acme"))
	it["metadata"] = &types.AttributeValueMemberM{Value: item.Item{"none": item.Null(), "n": item.N(3),
		"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{item.S("x")}}, "set": item.SS("y"),
		"map": &types.AttributeValueMemberM{Value: item.Item{"yes": item.Bool(true)}}}}
	w.db.Store(it)
	e, err := w.ns.Entity(t.Context(), "acme")
	w.must(err)
	want := map[string]any{"none": nil, "n": int64(3), "list": []any{"x"}, "set": []string{"y"},
		"map": map[string]any{"yes": true}}
	if !reflect.DeepEqual(map[string]any(e.Metadata), want) {
		t.Errorf("metadata %+v", e.Metadata)
	}
}

// Limits that are not wanted any more are dropped from a bucket when they are full, or when
// they were stored before, and the meter never is.
func TestWhatIsDropped(t *testing.T) {
	limit := func(name string) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: 10_000, Amount: 10_000, Period: 60_000}
	}
	image := table.Shard{State: bucket.New([]bucket.Limit{limit("full"), limit("kept"), limit("spent"), limit("stored")},
		0, 1, start)}
	for _, name := range []string{"kept", "spent", "stored"} {
		image.State.Slots[image.State.Index(name)].Tokens = 0
	}
	image.Partial = []table.PartialLimit{{Name: "half"}}
	b := bringing{want: []bucket.Limit{limit("kept")}, before: []string{"stored", "kept"}}
	got := b.dropped(image, start)
	if len(got) != 3 || got[0] != "full" || got[1] != "stored" || got[2] != "half" {
		t.Errorf("dropped %v", got)
	}
}
