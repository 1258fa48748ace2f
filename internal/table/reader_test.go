package table

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

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
