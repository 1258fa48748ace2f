package admin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/zeroae/zae-limiter-go/internal/argument"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func limitsJSON(limits []limiter.Limit) string {
	out := object{}
	for _, l := range limits {
		o := object{}
		for word, value := range argument.Limit[limiter.Calendar](l).Words() {
			if text, ok := value.(string); ok {
				value = quoted(text)
			}
			o[word] = fmt.Sprint(value)
		}
		if l.Floors != "" { // Python knows none
			o["floors"] = quoted(l.Floors)
		}
		if l.Ahead != 0 {
			o["ahead_milliseconds"] = strconv.FormatInt(l.Ahead.Milliseconds(), 10)
		}
		out[l.Name] = o.String()
	}
	return out.String()
}

// object is a JSON object with members that are JSON already.
type object map[string]string

// String returns the object in the form that the hash is defined over: sorted, a
// space after every comma and colon, nothing but ASCII.
func (o object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(key) + ": " + o[key])
	}
	b.WriteByte('}')
	return b.String()
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
