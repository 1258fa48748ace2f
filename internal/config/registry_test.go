package config

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A count of configurations is removed at zero or below, where other clients may leave it.
func TestCountsAreRemovedAtZero(t *testing.T) {
	forget := ForgetEntityConfigs("ns", "gpt")
	for n, want := range map[int64]bool{-1: true, 0: true, 1: false, 2: false} {
		it := layout.EntityConfigsKey("ns").Item()
		it["gpt"], it["other"] = item.N(n), item.N(5)
		after, held, err := forget.Apply(it)
		if err != nil || held != want {
			t.Errorf("%d: held %v, %v", n, held, err)
		}
		if held && (after["gpt"] != nil || after["other"] == nil) {
			t.Errorf("%d: %v", n, after)
		}
	}
}

// A change of many levels takes one write per registry, and none if nothing changes. Resources
// named like a key are not counted.
func TestRegistriesAreWrittenOnce(t *testing.T) {
	got := List("ns", Listing{Resource: "b", Is: true}, Listing{Resource: "a", Is: true}, Listing{},
		Listing{Entity: "e", Resource: "gpt", Is: true}, Listing{Entity: "f", Resource: "gpt", Is: true},
		Listing{Entity: "g", Resource: "gpt", Is: true, Was: true}, Listing{Entity: "e", Resource: "x", Was: true},
		Listing{Entity: "e", Resource: "GSI1PK", Is: true})
	check.Equal(t, len(got), 2, "writes")
	resources, _, err := got[0].Apply(nil)
	check.Must(t, err)
	counts, _, err := got[1].Apply(nil)
	check.Must(t, err)
	if r, err := DecodeResources(resources); err != nil || !slices.Equal(r, []string{"a", "b"}) {
		t.Errorf("%v, %v", r, err)
	}
	c, err := DecodeEntityConfigs(counts)
	check.Must(t, err)
	check.Deep(t, c, map[string]int64{"gpt": 2, "x": -1}, "counts")
	check.Equal(t, len(List("ns", Listing{Entity: "e", Resource: "x", Was: true, Is: true}, Listing{})), 0, "no writes")
	gone, _, err := List("ns", Listing{Resource: "a", Was: true})[0].Apply(resources)
	check.Must(t, err)
	if r, err := DecodeResources(gone); err != nil || !slices.Equal(r, []string{"b"}) {
		t.Errorf("%v, %v", r, err)
	}
}

// The levels of a registry are sorted. A number in the key of an index is not a count, and another
// record is not a registry.
func TestRegistriesOfOtherClientsAreRead(t *testing.T) {
	resources, counts := layout.ResourcesKey("ns").Item(), layout.EntityConfigsKey("ns").Item()
	resources[attrResources] = item.SS("b", "c", "a")
	counts["gpt"], counts["name"], counts[item.AttrGSI1PK] = item.N(2), item.S("x"), item.N(7)
	names, err := DecodeResources(resources)
	check.Must(t, err)
	check.Slices(t, names, []string{"a", "b", "c"}, "names")
	got, err := DecodeEntityConfigs(counts)
	check.Must(t, err)
	check.Deep(t, got, map[string]int64{"gpt": 2}, "counts")
	_, err = DecodeResources(counts)
	check.Says(t, err, "not the key")
	_, err = DecodeEntityConfigs(resources)
	check.Says(t, err, "not the key")
}
