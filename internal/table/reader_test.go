package table

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A list of strings has nothing else in it; an empty one, or none, has no strings.
func TestTextsOfAList(t *testing.T) {
	of := func(v ...item.Value) item.Value { return &types.AttributeValueMemberL{Value: v} }
	for _, c := range []struct {
		v    item.Value
		want []string
		ok   bool
	}{
		{of(item.S("a"), item.S("b")), []string{"a", "b"}, true}, {of(), nil, true},
		{of(item.S("a"), item.N(5)), nil, false}, {of(item.Null()), nil, false}, {item.S("a"), nil, false},
	} {
		if got, err := texts(c.v); !slices.Equal(got, c.want) || (err == nil) != c.ok {
			t.Errorf("%v: %q, %v", c.v, got, err)
		}
	}
}

// What is wrong with a record is said with the kind of the record, its key, the attribute, and what
// was wanted. The first thing that is wrong is said.
func TestWhatIsWrongWithARecord(t *testing.T) {
	audit := Audit{Namespace: "ns", Subject: "acme", ID: "01", Action: "a", At: "2024-01-01T00:00:00Z"}.Item()
	for attr, c := range map[string]struct {
		v    item.Value
		want string
	}{
		"action":    {nil, `attribute "action" is absent or empty, want a string`},
		"timestamp": {item.N(5), `attribute "timestamp" has type *types.AttributeValueMemberN, want a string`},
		"resource":  {item.Bool(true), `attribute "resource" has type *types.AttributeValueMemberBOOL, want a string`},
	} {
		it := item.Item{}
		for name, v := range audit {
			it[name] = v
		}
		if it[attr] = c.v; c.v == nil {
			delete(it, attr)
		}
		want := `audit item "ns/AUDIT#acme" "#AUDIT#01": ` + c.want
		if _, err := DecodeAudit(it); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := DecodeAudit(audit); err != nil {
		t.Error(err)
	}
}

// An audit event is kept for ever unless it says until when.
func TestHowLongAnAuditEventIsKept(t *testing.T) {
	for _, ttl := range []int64{0, 1, 2, 1 << 40} {
		got, is := Audit{Namespace: "ns", Subject: "acme", ID: "01", TTL: ttl}.Item()[AttrTTL]
		if is != (ttl > 0) || is && !reflect.DeepEqual(got, item.N(ttl)) {
			t.Errorf("until %d: %v", ttl, got)
		}
	}
}

// An event has an id in its key.
func TestKeysThatAreNoAuditEvents(t *testing.T) {
	for sk, ok := range map[string]bool{SKAuditPrefix + "01": true, SKAuditPrefix: false, "#META": false} {
		it := Audit{Namespace: "ns", Subject: "acme", ID: "01", Action: "a", At: "2024-01-01T00:00:00Z"}.Item()
		it[item.AttrSK] = item.S(sk)
		if _, err := DecodeAudit(it); (err == nil) != ok {
			t.Errorf("%s: %v", sk, err)
		}
	}
}

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
				if !strings.Contains(err.Error(), attr) && !errors.Is(err, errKey) && c.v != nil ||
					strings.Contains(err.Error(), "%!") {
					t.Errorf("%s: %s as %s: %v", name, attr, c.what, err)
				}
			}
			out.WriteByte('\n')
		}
	}
	golden(t, "refused.txt", []byte(out.String()))
}

// Some configurations are none: of an entity without a resource, and of a resource without a name.
func TestKeysThatAreNoConfigurations(t *testing.T) {
	for _, c := range []struct {
		pk, sk string
		want   bool
	}{
		{"ns/ENTITY#e", "#CONFIG#gpt", true}, {"ns/ENTITY#e", "#CONFIG#", false}, {"ns/ENTITY#", "#CONFIG#gpt", false},
		{"ns/ENTITY#e", "#META", false}, {"ns/ENTITY#e", "#CONFIG", false}, {"ENTITY#e", "#CONFIG#gpt", false},
		{"ns/RESOURCE#gpt", "#CONFIG", true}, {"ns/RESOURCE#", "#CONFIG", false}, {"ns/RESOURCE#gpt", "#META", false},
		{"/RESOURCE#gpt", "#CONFIG", false}, {"ns/SYSTEM#", "#CONFIG", true}, {"ns/SYSTEM#", "#META", false},
		{"ns/SYSTEM#x", "#CONFIG", false},
	} {
		_, err := DecodeConfig(item.Key{PK: c.pk, SK: c.sk}.Item())
		if (err == nil) != c.want {
			t.Errorf("%s %s: %v", c.pk, c.sk, err)
		}
	}
}
