package config

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// An entity without a parent is listed under none. Its creation time stays.
func TestEntitiesCanLeaveTheirParent(t *testing.T) {
	e := Entity{Namespace: "ns", ID: "acme", Parent: "org", CreatedAt: "2024-01-01T00:00:00Z"}
	stored := e.Item()
	e.Parent, e.CreatedAt = "", "2025-01-01T00:00:00Z"
	after, held, err := e.Update().Apply(stored)
	if err != nil || !held || after[item.AttrGSI1PK] != nil || after[item.AttrGSI1SK] != nil {
		t.Fatalf("held %v, %v: %v", held, err, after)
	}
	delete(stored, layout.AttrCreatedAt)
	if moved, held, err := e.Move().Apply(stored); err != nil || !held || moved[layout.AttrCreatedAt] != nil {
		t.Errorf("a move, held %v, %v, invented a creation time: %v", held, err, moved)
	}
	got, err := DecodeEntity(after)
	if err != nil || got.Parent != "" || got.CreatedAt != "2024-01-01T00:00:00Z" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A moved entity has the new parent and the new cascade. Everything else stays.
func TestEntitiesCanMove(t *testing.T) {
	is := Entity{Namespace: "ns", ID: "acme", Name: "Acme", CreatedAt: "2024-01-01T00:00:00Z"}
	it := is.Item()
	for _, to := range []Entity{{Parent: "org", Cascade: true}, {Parent: "org"}, {Parent: "other", Cascade: true}, {}} {
		to.Namespace, to.ID, to.Name = "ns", "acme", "not to be stored"
		after, held, err := to.Move().Apply(it)
		if err != nil || !held {
			t.Fatal(held, err)
		}
		it = after
		is.Parent, is.Cascade = to.Parent, to.Cascade
		got, err := DecodeEntity(it)
		if err != nil || !reflect.DeepEqual(got, is) || (it[item.AttrGSI1PK] != nil) != (to.Parent != "") {
			t.Errorf("%+v, %v, want %+v", got, err, is)
		}
	}
}
