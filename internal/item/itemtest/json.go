package itemtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// JSON renders an item in DynamoDB's JSON, one attribute per line, sorted by name: for goldens,
// messages and tests that play the stream. MarshalMapJSON of the SDK's attributevalue has no
// order, and the root module would require it for tests only. test/localstack, a module of its
// own, has it.
func JSON(it item.Item) []byte {
	var b strings.Builder
	b.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(it)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  " + quoted(name) + ": ")
		writeJSON(&b, it[name])
	}
	b.WriteString("\n}\n")
	return []byte(b.String())
}

func quoted(s string) string {
	if !strings.ContainsFunc(s, special) {
		return `"` + s + `"`
	}
	out, err := json.Marshal(s)
	if err != nil {
		panic("bug: " + err.Error())
	}
	return string(out)
}

// special reports whether JSON may write a character otherwise. Few have one, and worlds of tests write millions.
func special(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
}

func writeJSON(b *strings.Builder, v item.Value) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		b.WriteString(`{"S": ` + quoted(v.Value) + `}`)
	case *types.AttributeValueMemberN:
		b.WriteString(`{"N": ` + quoted(v.Value) + `}`)
	case *types.AttributeValueMemberB:
		b.WriteString(`{"B": ` + quoted(base64.StdEncoding.EncodeToString(v.Value)) + `}`)
	case *types.AttributeValueMemberBOOL:
		fmt.Fprintf(b, `{"BOOL": %t}`, v.Value)
	case *types.AttributeValueMemberNULL:
		fmt.Fprintf(b, `{"NULL": %t}`, v.Value)
	case *types.AttributeValueMemberSS:
		writeSet(b, "SS", v.Value)
	case *types.AttributeValueMemberNS:
		writeSet(b, "NS", v.Value)
	case *types.AttributeValueMemberBS:
		set := make([]string, len(v.Value))
		for i, e := range v.Value {
			set[i] = base64.StdEncoding.EncodeToString(e)
		}
		writeSet(b, "BS", set)
	case *types.AttributeValueMemberL:
		b.WriteString(`{"L": [`)
		for i, e := range v.Value {
			if i > 0 {
				b.WriteString(", ")
			}
			writeJSON(b, e)
		}
		b.WriteString("]}")
	case *types.AttributeValueMemberM:
		b.WriteString(`{"M": {`)
		for i, name := range slices.Sorted(maps.Keys(v.Value)) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoted(name) + ": ")
			writeJSON(b, v.Value[name])
		}
		b.WriteString("}}")
	default:
		fmt.Fprintf(b, `{"unknown": %q}`, fmt.Sprintf("%T", v))
	}
}

func writeSet(b *strings.Builder, typ string, set []string) {
	b.WriteString(`{"` + typ + `": [`)
	for i, s := range set {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(s))
	}
	b.WriteString("]}")
}
