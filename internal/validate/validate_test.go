package validate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// said returns what an error says, nothing for none.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// An error names the field, the value and what is accepted. A text is quoted, and cut where it is long.
func TestErrorsNameTheField(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		err  error
		want string
	}{
		{Invalid("rate", 3, "4"), "limiter: invalid: rate is 3, want 4"},
		{Invalid("rate", Plain("two words"), "one"), "limiter: invalid: rate is two words, want one"},
		{Invalid("name", "a b", "c"), `limiter: invalid: name is "a b", want c`},
		{Invalid("name", long, "c"), `limiter: invalid: name is "` + long + `", want c`},
		{Invalid("name", long+"y", "c"), `limiter: invalid: name is "` + long + `"... of 65 bytes, want c`},
		{Table(false, "t"), "limiter: invalid: db is nil, want a DynamoDB client"},
		{Table(true, ""), `limiter: invalid: table is "", want the name of a table`},
		{Table(true, "t"), ""},
		{Entity("entity", "a/b"), ""},
		{Entity("parent", "a\n"), `limiter: invalid: parent is "a\n", want ` + layout.EntityNames},
		{Resource("resource", "gpt-4"), ""},
		{Resource("resource", "_default_"), `limiter: invalid: resource is "_default_", want ` + layout.ResourceNames},
	} {
		check.Equal(t, said(c.err), c.want, "got %v", c.err)
		if c.err != nil && !errors.Is(c.err, ErrInvalid) {
			t.Errorf("%v is no ErrInvalid", c.err)
		}
	}
}

// Limits are stored in order of name, as many as there may be, and each name once.
func TestListsOfLimits(t *testing.T) {
	list := func(n int, atOnce int) (out []string) {
		for i := range n {
			name := string(rune('a' + n - i))
			if i < atOnce {
				name += "*"
			}
			out = append(out, name)
		}
		return out
	}
	stored := func(i int, name string) (bucket.Limit, error) {
		if name == "bad" {
			return bucket.Limit{}, fmt.Errorf("number %d is bad", i)
		}
		return bucket.Limit{Name: name, InFlight: strings.HasSuffix(name, "*")}, nil
	}
	for _, c := range []struct {
		name   string
		limits []string
		want   string // the error; empty: none
	}{
		{"none", nil, ""},
		{"as many as there may be", list(bucket.MaxLimits, 0), ""},
		{"one more", list(bucket.MaxLimits+1, 0),
			fmt.Sprintf("limiter: invalid: limits is %d limits, want at most %d", bucket.MaxLimits+1, bucket.MaxLimits)},
		{"as many in flight as there may be", list(bucket.MaxAtOnce+1, bucket.MaxAtOnce), ""},
		{"one more in flight", list(bucket.MaxAtOnce+1, bucket.MaxAtOnce+1),
			fmt.Sprintf("limiter: invalid: limits is %d in-flight limits, want at most %d", bucket.MaxAtOnce+1,
				bucket.MaxAtOnce)},
		{"twice", []string{"b", "a", "b"}, `limiter: invalid: limits is "b" twice, want every limit name once`},
		{"a bad one", []string{"b", "bad"}, "number 1 is bad"},
	} {
		got, err := Limits("limits", c.limits, stored)
		check.Equal(t, said(err), c.want, "%s: %v", c.name, err)
		sorted := slices.IsSortedFunc(got, func(a, b bucket.Limit) int { return strings.Compare(a.Name, b.Name) })
		if err == nil && (len(got) != len(c.limits) || !sorted) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
