package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// encode writes a value as JSON, on one line if there is no indent.
func encode(w io.Writer, value any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(plainly(reflect.ValueOf(value))); err != nil {
		return err
	}
	_, err := io.WriteString(w, escaped(text.String()))
	return err
}

// escaped replaces characters that could steer a terminal by their JSON escapes, which programs
// read as the same characters.
func escaped(text string) string {
	var out strings.Builder
	for _, c := range text {
		if c == '\n' || !steers(c) {
			out.WriteRune(c)
			continue
		}
		for _, part := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&out, `\u%04x`, part)
		}
	}
	return out.String()
}

// object is a JSON object with its members in order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	out := bytes.NewBufferString("{")
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, "%q:", m.name)
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// spelled are the fields whose JSON name is not their own with underscores: manifests use these
// names, or the name has a unit.
var spelled = map[string]string{
	"Refill": "refill_amount", "Period": "refill_period", "FullIn": "full_in_seconds",
	"ChangesIn": "changes_in_seconds",
	"Ahead":     "ahead_seconds", "Err": "error",
}

// plainly returns a value as JSON has it: structs as objects, embedded ones among their members; instants as text,
// durations in seconds; lists never null. Of the fields those are left out that are empty text, zero instants, maps
// and pointers that are nil, and times that nobody has decided, and raises where there are none. Numbers, other lists
// and truth values always stand there.
//
//	Usage{Entity: "acme", Start: midnight, Events: 2}
//	{"entity": "acme", "start": "2024-02-01T00:00:00Z", "tokens": {}, "events": 2}
func plainly(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return stamp(x)
	case time.Duration:
		return x.Seconds()
	case limiter.Policy, admin.Access, admin.Cascade:
		return fmt.Sprint(x)
	case error:
		return plain(x.Error())
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return plainly(v.Elem())
	case reflect.Struct:
		return members(v)
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plainly(v.Index(i))
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for name, value := range v.Seq2() {
			out[name.String()] = plainly(value)
		}
		return out
	}
	return v.Interface()
}

func members(v reflect.Value) (out object) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch value := v.Field(i); {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			out = append(out, members(value)...)
		case !f.IsExported() || value.IsZero() && optional(f):
		case f.Name == "FullIn" && value.Int() < 0: // -1: never
			out = append(out, member{spelled[f.Name], nil})
		case f.Name == "Schedule":
			out = append(out, member{"schedule", windows(value.String())})
		case f.Name == "AuditRetention":
			out = append(out, member{underscored(f.Name) + "_days", days(value.Interface().(time.Duration))})
		default:
			name, ok := spelled[f.Name]
			if !ok {
				name = underscored(f.Name)
			}
			out = append(out, member{name, plainly(value)})
		}
	}
	switch l, _ := v.Interface().(limiter.Limit); { // limits whose numbers do not show their kind
	case l.IsBlocked():
		out = append(out, member{"blocked", true})
	case l.IsUnlimited():
		out = append(out, member{"unlimited", true})
	}
	return out
}

// optional reports whether a field is left out when it is zero.
func optional(f reflect.StructField) bool {
	switch f.Type {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[limiter.Policy](), reflect.TypeFor[admin.Access](),
		reflect.TypeFor[admin.Cascade]():
		return true
	}
	switch f.Type.Kind() {
	case reflect.String, reflect.Pointer, reflect.Map, reflect.Interface:
		return true
	}
	return f.Name == "AuditRetention" || f.Name == "Raises" ||
		(f.Name == "Ahead" || f.Name == "ChangesIn") && f.Type == reflect.TypeFor[time.Duration]()
}

// windows returns a schedule in the form of manifests.
func windows(schedule string) (out []object) {
	all, zone, _ := strings.Cut(schedule, "@")
	for one := range strings.SplitSeq(all, ";") {
		cron, c, _ := calendar.WindowOf(one) // valid: it was read from the table
		w := object{{"cron", cron}, {"tz", zone}}
		if c.Scale != 0 {
			w = append(w, member{"scale", float64(c.Scale) / 1000})
		}
		for _, n := range []member{
			{"capacity", c.Capacity}, {"refill_amount", c.Refill}, {"refill_period_seconds", c.Period}} {
			if n.value != int64(0) {
				w = append(w, n)
			}
		}
		out = append(out, w)
	}
	return out
}

// underscored returns "DeletedAt" as "deleted_at", "P50MS" as "p50_ms", "ID" as "id".
func underscored(name string) string {
	var out strings.Builder
	letters := []rune(name)
	for i, c := range letters {
		ends := i > 0 && !unicode.IsUpper(letters[i-1]) // a word ends
		begins := i > 0 && i+1 < len(letters) && unicode.IsLower(letters[i+1])
		if unicode.IsUpper(c) && (ends || begins) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(c))
	}
	return out.String()
}
