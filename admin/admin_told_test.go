package admin

import (
	"reflect"
	"testing"
	"time"

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

// An update keeps when the entity was created, and tells it.
func TestUpdatesKeepTheCreation(t *testing.T) {
	w := newWorld(t)
	created := w.create(Entity{ID: "acme"}).CreatedAt
	w.advance(time.Hour)
	e, err := w.ns.UpdateEntity(t.Context(), Entity{ID: "acme", Name: "Acme"})
	w.must(err)
	again, err := w.ns.Entity(t.Context(), "acme")
	w.must(err)
	if created.IsZero() || !e.CreatedAt.Equal(created) || !again.CreatedAt.Equal(created) || again.Name != "Acme" {
		t.Errorf("created at %v; the update tells %+v, stored is %+v", created, e, again)
	}
}

// The counters of a bucket that was removed begin anew: all that its next life has consumed is
// live, whatever the last snapshot has counted.
func TestLiveUsageOfAnotherLife(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 10_000, Amount: 1000, Period: 1000}
	b := table.Shard{Generation: start, State: bucket.New([]bucket.Limit{limit}, 0, 1, start)}
	b.State.Slots[b.State.Index("rpm")].Used = 9000
	at := table.PositionOf(1, "5")
	for _, c := range []struct {
		name string
		mark table.Mark
		want int64
	}{
		{"not counted yet", table.Mark{}, 9},
		{"counted up to 4", table.Mark{At: at, Used: []table.Count{{Limit: "rpm", Tokens: 4}}}, 5},
		{"behind a mark of the same life", table.Mark{At: at, Gen: table.GenerationByte(b.Generation),
			Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, -3},
		{"behind a mark of another life", table.Mark{At: at, Gen: table.GenerationByte(b.Generation) + 1,
			Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"behind a mark of no known life", table.Mark{At: at, Used: []table.Count{{Limit: "rpm", Tokens: 12}}}, 9},
		{"of a life that ended at 4", table.Mark{At: at, Gone: true, Used: []table.Count{{Limit: "rpm", Tokens: 4}}}, 9},
	} {
		if got := grown(c.mark, b)["rpm"]; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
