package item

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Reader reads attributes of an item and keeps the first error, so decoders need not check each
// one. Absent and null attributes read as zero.
type Reader struct {
	It  Item
	Err error // the first error
}

// Fail records an error unless there is one already.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, args...)
	}
}

// Value returns the attribute unless it is absent or null.
func (r *Reader) Value(attr string) (Value, bool) {
	v, ok := r.It[attr]
	if _, null := v.(*types.AttributeValueMemberNULL); null || v == nil {
		return nil, false
	}
	return v, ok
}

// Str reads a string.
func (r *Reader) Str(attr string) string {
	v, ok := r.Value(attr)
	if !ok {
		return ""
	}
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		r.Fail("attribute %q has type %T, want a string", attr, v)
		return ""
	}
	return s.Value
}

// Need is Str for a required attribute.
func (r *Reader) Need(attr string) string {
	s := r.Str(attr)
	if s == "" {
		r.Fail("attribute %q is absent or empty, want a string", attr)
	}
	return s
}

// Flag reads a boolean.
func (r *Reader) Flag(attr string) bool {
	v, ok := r.Value(attr)
	if !ok {
		return false
	}
	b, ok := v.(*types.AttributeValueMemberBOOL)
	if !ok {
		r.Fail("attribute %q has type %T, want a boolean", attr, v)
		return false
	}
	return b.Value
}

// Int reads a whole number.
func (r *Reader) Int(attr string) int64 {
	if _, ok := r.Value(attr); !ok {
		return 0
	}
	n, _, err := Int(r.It, attr)
	if err != nil {
		r.Fail("%w", err)
	}
	return n
}

// Entries returns a map attribute; an empty one is nil.
func (r *Reader) Entries(attr string) Item {
	v, ok := r.Value(attr)
	if !ok {
		return nil
	}
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		r.Fail("attribute %q has type %T, want a map", attr, v)
		return nil
	}
	if len(m.Value) == 0 {
		return nil
	}
	return m.Value
}

// Texts returns a list or set of strings; an empty one is nil.
func (r *Reader) Texts(attr string) []string {
	v, ok := r.Value(attr)
	if !ok {
		return nil
	}
	out, err := Strings(v)
	if err != nil {
		r.Fail("attribute %q: %w", attr, err)
	}
	return out
}

// Strings reads a list or set of strings.
func Strings(v Value) ([]string, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		return v.Value, nil
	case *types.AttributeValueMemberL:
		var out []string
		for i, e := range v.Value {
			s, ok := e.(*types.AttributeValueMemberS)
			if !ok {
				return nil, fmt.Errorf("entry %d has type %T, want a string", i, e)
			}
			out = append(out, s.Value)
		}
		return out, nil
	}
	return nil, fmt.Errorf("type %T, want strings", v)
}

// List returns a list of strings. Unlike a set, it may be empty.
func List(s []string) Value {
	out := make([]Value, len(s))
	for i, e := range s {
		out[i] = S(e)
	}
	return &types.AttributeValueMemberL{Value: out}
}

// StringOrNull returns a string, or null if it is empty: some records store absent strings as null.
func StringOrNull(s string) Value {
	if s == "" {
		return Null()
	}
	return S(s)
}

// Named adds the name of the record to the error.
func (r *Reader) Named(record string) error {
	if r.Err == nil {
		return nil
	}
	k := KeyOf(r.It)
	return fmt.Errorf("%s item %q %q: %w", record, k.PK, k.SK, r.Err)
}

// Decoded returns a record that was read with r. If there was an error, it returns only the error,
// with the name of the record.
func Decoded[T any](r *Reader, record string, read T) (out T, err error) {
	if err := r.Named(record); err != nil {
		return out, err
	}
	return read, nil
}

// ErrKey is the error for an item whose key belongs to another kind of record.
var ErrKey = errors.New("not the key of such a record")

// SK checks the sort key.
func (r *Reader) SK(want string) {
	if KeyOf(r.It).SK != want {
		r.Fail("%w", ErrKey)
	}
}

// ErrNotInteger is the error for an attribute that is not a whole number.
var ErrNotInteger = errors.New("want a whole number of 64 bits")

// Int reads a whole number; ok is false when the attribute is absent.
func Int(it Item, attr string) (n int64, ok bool, err error) {
	v, ok := it[attr]
	if !ok {
		return 0, false, nil
	}
	if num, isN := v.(*types.AttributeValueMemberN); isN {
		if n, err = strconv.ParseInt(num.Value, 10, 64); err == nil {
			return n, true, nil
		}
	}
	return 0, false, fmt.Errorf("attribute %q is %s: %w", attr, Shown(v), ErrNotInteger)
}

// Shown formats a value for an error message.
func Shown(v Value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("the string %.40q", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	}
	kind := fmt.Sprintf("%T", v)
	return "of type " + kind[strings.LastIndex(kind, "Member")+len("Member"):]
}
