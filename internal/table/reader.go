package table

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Timestamp renders an instant in epoch milliseconds as records store it: UTC,
// whole seconds, with a Z.
func Timestamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z")
}

// reader reads attributes and keeps the first error, so that decoders need not
// look at each one. Attributes that are absent or null read as zero.
type reader struct {
	it  item.Item
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// value returns the attribute unless it is absent or null.
func (r *reader) value(attr string) (item.Value, bool) {
	v, ok := r.it[attr]
	if _, null := v.(*types.AttributeValueMemberNULL); null || v == nil {
		return nil, false
	}
	return v, ok
}

func (r *reader) str(attr string) string {
	v, ok := r.value(attr)
	if !ok {
		return ""
	}
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		r.fail("attribute %q has type %T, want a string", attr, v)
		return ""
	}
	return s.Value
}

// need is str for an attribute without which the record makes no sense.
func (r *reader) need(attr string) string {
	s := r.str(attr)
	if s == "" {
		r.fail("attribute %q is absent or empty, want a string", attr)
	}
	return s
}

func (r *reader) flag(attr string) bool {
	v, ok := r.value(attr)
	if !ok {
		return false
	}
	b, ok := v.(*types.AttributeValueMemberBOOL)
	if !ok {
		r.fail("attribute %q has type %T, want a boolean", attr, v)
		return false
	}
	return b.Value
}

func (r *reader) int(attr string) int64 {
	if _, ok := r.value(attr); !ok {
		return 0
	}
	n, _, err := intAttr(r.it, attr)
	if err != nil {
		r.fail("%w", err)
	}
	return n
}

// entries returns a map attribute; an empty one is nil.
func (r *reader) entries(attr string) item.Item {
	v, ok := r.value(attr)
	if !ok {
		return nil
	}
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		r.fail("attribute %q has type %T, want a map", attr, v)
		return nil
	}
	if len(m.Value) == 0 {
		return nil
	}
	return m.Value
}

// texts returns a list or set of strings; an empty one is nil.
func (r *reader) texts(attr string) []string {
	v, ok := r.value(attr)
	if !ok {
		return nil
	}
	out, err := texts(v)
	if err != nil {
		r.fail("attribute %q: %w", attr, err)
	}
	return out
}

func texts(v item.Value) ([]string, error) {
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

// list is a list of strings, which unlike a set may be empty.
func list(s []string) item.Value {
	out := make([]item.Value, len(s))
	for i, e := range s {
		out[i] = item.S(e)
	}
	return &types.AttributeValueMemberL{Value: out}
}

// sOrNull is the form in which some records store an absent optional string.
func sOrNull(s string) item.Value {
	if s == "" {
		return item.Null()
	}
	return item.S(s)
}

// put sets a string attribute unless the string is empty.
func (it keyed) put(attr, s string) keyed {
	if s != "" {
		it[attr] = item.S(s)
	}
	return it
}

// keyed is an item under construction.
type keyed item.Item

func newItem(k item.Key) keyed { return keyed(k.Item()) }

// named wraps what went wrong with the record it went wrong in.
func (r *reader) named(record string) error {
	if r.err == nil {
		return nil
	}
	k := item.KeyOf(r.it)
	return fmt.Errorf("%s item %q %q: %w", record, k.PK, k.SK, r.err)
}

var errKey = errors.New("not the key of such a record")

// under returns the namespace and what follows prefix in the rest of the
// partition key.
func (r *reader) under(prefix string) (ns, rest string) {
	ns, rest, ok := CutNamespace(item.KeyOf(r.it).PK)
	if ok {
		rest, ok = strings.CutPrefix(rest, prefix)
	}
	if !ok || ns == "" {
		r.fail("%w", errKey)
	}
	return ns, rest
}

// sk checks the sort key.
func (r *reader) sk(want string) {
	if item.KeyOf(r.it).SK != want {
		r.fail("%w", errKey)
	}
}

var errNotInteger = errors.New("want a whole number of 64 bits")

// intAttr reads a whole number; ok is false when the attribute is absent.
func intAttr(it item.Item, attr string) (n int64, ok bool, err error) {
	v, ok := it[attr]
	if !ok {
		return 0, false, nil
	}
	if num, isN := v.(*types.AttributeValueMemberN); isN {
		if n, err = strconv.ParseInt(num.Value, 10, 64); err == nil {
			return n, true, nil
		}
	}
	return 0, false, fmt.Errorf("attribute %q is %s: %w", attr, shown(v), errNotInteger)
}
