package item

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestKeysOfItems(t *testing.T) {
	key := Key{"p", "s"}
	it := key.Item()
	if !EqualItems(it, Item{"PK": S("p"), "SK": S("s")}) || KeyOf(it) != key {
		t.Errorf("%v is written as %v, and read as %v", key, it, KeyOf(it))
	}
	if got := KeyOf(Item{"PK": N(1), "a": S("x")}); got != (Key{}) {
		t.Errorf("an item without a key has %v", got)
	}
	for attr, want := range map[string]bool{"PK": true, "SK": true, "GSI1PK": true, "GSI4SK": true,
		"GSI5PK": false, "pk": false, "": false} {
		check.Equal(t, IsKeyAttr(attr), want, "%q is part of a key", attr)
	}
}
