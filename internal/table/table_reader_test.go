package table

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// An item under the key of another kind of record is none of its own.
func TestRecordsStandUnderTheirKeys(t *testing.T) {
	kind := func(name string) string {
		all, _, _ := strings.Cut(name, "_")
		if all == "registry" && !strings.HasPrefix(name, "registry_provisioner") {
			return name
		}
		return all
	}
	all := samples()
	for name, it := range all {
		for other, there := range all {
			moved, k := maps.Clone(it), item.KeyOf(there)
			moved[item.AttrPK], moved[item.AttrSK] = item.S(k.PK), item.S(k.SK)
			_, err := decodedAs(item.KeyOf(it), moved)
			if kind(name) != kind(other) && err == nil {
				t.Errorf("%s is read under the key of %s", name, other)
			}
		}
	}
}

// Which attributes of each kind of record must be there, and which must be of their type if they are,
// is a file. The error says the attribute, or the key of the record.
func TestWhatRecordsAreRefusedFor(t *testing.T) {
	var out strings.Builder
	all := samples()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "%s\n", name)
		for _, c := range []struct {
			what string
			v    item.Value
		}{{"absent", nil}, {"a map of numbers", item.Map(item.Item{"x": item.N(5)})}, {"a text", item.S("x y")},
			{"a negative number", item.N(-7)}} {
			fmt.Fprintf(&out, "  refused as %s:", c.what)
			for _, attr := range slices.Sorted(maps.Keys(all[name])) {
				it := maps.Clone(all[name])
				if it[attr] = c.v; c.v == nil {
					delete(it, attr)
				}
				_, err := decodedAs(item.KeyOf(all[name]), it)
				if err == nil {
					continue
				}
				fmt.Fprintf(&out, " %s", attr)
				if !strings.Contains(err.Error(), attr) && !errors.Is(err, item.ErrKey) && c.v != nil ||
					strings.Contains(err.Error(), "%!") {
					t.Errorf("%s: %s as %s: %v", name, attr, c.what, err)
				}
			}
			out.WriteByte('\n')
		}
	}
	golden(t, "refused.txt", []byte(out.String()))
}
