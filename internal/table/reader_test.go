package table

import (
	"reflect"
	"slices"
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
