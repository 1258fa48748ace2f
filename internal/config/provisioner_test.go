package config

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A state that does not fit into one item has pages, each of which can be replaced separately.
func TestLargeProvisionerStatesHavePages(t *testing.T) {
	small := Provisioner{Namespace: "ns", Entities: map[string][]string{"acme": {"gpt"}}}
	if p := small.Fitting(); p.Paged || p.Pages() != nil {
		t.Errorf("%+v is paged", p)
	}
	large := Provisioner{Namespace: "ns", System: true, Resources: []string{"gpt"}, Entities: map[string][]string{}}
	for i := range 10_000 {
		large.Entities[fmt.Sprintf("tenant-%05d", i)] = []string{"_default_", "openai/gpt-4"}
		large.Described = append(large.Described, fmt.Sprintf("tenant-%05d", i))
	}
	large = large.Fitting()
	if !large.Paged {
		t.Fatal("10,000 entities in one item")
	}
	got, err := DecodeProvisioner(large.Item())
	if err != nil || !got.Paged || len(got.Entities) != 0 || got.Described != nil {
		t.Errorf("the item itself: %+v, %v", got, err)
	}
	got.Entities = map[string][]string{}
	for i, page := range large.Pages() {
		if err := item.ValidateItem(page); err != nil || item.KeyOf(page) != layout.ProvisionerPageKeys("ns")[i] {
			t.Fatalf("page %d: %v", i, err)
		}
		p, err := DecodeProvisioner(page)
		if err != nil || !IsProvisioner(item.KeyOf(page)) {
			t.Fatalf("page %d: %v", i, err)
		}
		maps.Copy(got.Entities, p.Entities)
		got.Described = append(got.Described, p.Described...)
	}
	slices.Sort(got.Described)
	check.Deep(t, got, large, "the pages have another state")
	less := large
	less.Entities = maps.Clone(large.Entities)
	delete(less.Entities, "tenant-00007")
	changed, before, after := 0, large.Pages(), less.Pages()
	for i, page := range after {
		was := before[i]
		if !item.EqualItems(page, was) {
			changed++
		}
		for name, c := range map[string]struct {
			now  item.Item
			held bool
		}{"as it was read": {was, true}, "changed": {before[(i+1)%256], false}, "gone": {nil, false}} {
			if _, held, err := ReplacePage(page, was).Apply(c.now); held != c.held || err != nil {
				t.Fatalf("page %d, %s: held %v, %v", i, name, held, err)
			}
		}
		if _, held, _ := ReplacePage(page, nil).Apply(was); held {
			t.Fatal("an existing page was taken as missing")
		}
	}
	check.Equal(t, changed, 1, "one entity less changes pages")
}

// An item with another key is not a provisioner's state.
func TestProvisionerStatesNeedTheirKey(t *testing.T) {
	it := Provisioner{Namespace: "ns"}.Item()
	check.Must(t, check.Err(DecodeProvisioner(it)))
	sk := item.KeyOf(it).SK
	for _, other := range []string{"#VERSION", sk + "x", sk + "#0", sk + "#"} {
		if it[item.AttrSK] = item.S(other); IsProvisioner(item.KeyOf(it)) {
			t.Errorf("%s was accepted as a provisioner's", other)
		}
		if _, err := DecodeProvisioner(it); err == nil {
			t.Errorf("read from the key %s", other)
		}
	}
}

// A list that another program has written may have a name twice, or an empty one, which names nothing: with it, a
// resource would be everybody's default.
func TestManagedNamesAreReadOnce(t *testing.T) {
	names, want := item.List([]string{"b", "", "a", "b"}), []string{"a", "b"}
	it := Provisioner{Namespace: "ns"}.Item()
	it[attrManagedRes], it[attrManagedDescribed] = names, names
	it[attrManagedEntities] = item.Map(item.Item{"acme": names})
	p, err := DecodeProvisioner(it)
	check.Must(t, err)
	check.Slices(t, p.Resources, want, "resources")
	check.Slices(t, p.Described, want, "described")
	check.Slices(t, p.Entities["acme"], want, "resources of the entity")
}
