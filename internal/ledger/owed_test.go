package ledger

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Different lists of one instant have different keys, in order of creation. Other items have no
// list.
func TestOwedListsHaveUniqueKeys(t *testing.T) {
	list := OwedList{Created: 77, Packed: []byte("abc"), TTL: 9}
	put := list.Put()
	if k := put.Target(); k.PK != OwedPK || k.SK[:16] != "000000000000077#" || string(PackedOwed(put.Item)) != "abc" {
		t.Errorf("%v holds %q", k, PackedOwed(put.Item))
	}
	other := list
	if other.Packed = []byte("abd"); other.Put().Target() == put.Target() || list.Put().Target() != put.Target() {
		t.Error("two lists have one key, or one has two")
	}
	if got := PackedOwed(item.Item{"owed": item.S("abc")}); got != nil {
		t.Errorf("a string holds %q", got)
	}
	if ttl := put.Item["ttl"]; !item.EqualItems(item.Item{"v": ttl}, item.Item{"v": item.N(9)}) {
		t.Errorf("it expires at %v", ttl)
	}
}

// A claim of the next lists requires the cursor as it was read, so it succeeds once. The end of a
// claim records how far the lists are counted.
func TestListsAreClaimedOnce(t *testing.T) {
	stored := item.Item(nil)
	first := DecodeOwedCursor(stored)
	claimed := applied(t, first.Claim(500), stored)
	check.MustEqual(t, DecodeOwedCursor(claimed), OwedCursor{0, 500}, "claimed")
	if _, held, _ := first.Claim(600).Apply(claimed); held {
		t.Error("claimed twice")
	}
	done := applied(t, first.Advance(500, 300), claimed)
	check.Equal(t, DecodeOwedCursor(done), OwedCursor{300, 0}, "counted")
	if _, held, _ := first.Advance(500, 400).Apply(done); held {
		t.Error("a claim is ended twice")
	}
	if got := DecodeOwedCursor(item.Item{"settled": item.S("x"), "claimed": item.N(5)}); got.Counted != 0 {
		t.Errorf("a string is %+v", got)
	}
}
