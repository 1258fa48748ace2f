package argument

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

func TestLimitsComeBackAsTheyWereStored(t *testing.T) {
	l := Limit[string]{Name: "tpm", Capacity: 100, Refill: 50, Period: time.Minute}
	want := bucket.Limit{Name: "tpm", Capacity: 100_000, Amount: 50_000, Period: 60_000}
	if got := l.Stored(); got != want {
		t.Errorf("stored as %+v, want %+v", got, want)
	}
	if got := LimitOf[string](want); got != l {
		t.Errorf("read as %+v, want %+v", got, l)
	}
}

func TestPoliciesHaveOneWordEach(t *testing.T) {
	for p, word := range map[int]string{0: "", 1: "block", 2: "allow"} {
		if got, ok := PolicyWord(p); got != word || !ok {
			t.Errorf("policy %d is %q, %t, want %q", p, got, ok, word)
		}
		if got, ok := PolicyOf[int](word); got != p || !ok {
			t.Errorf("%q is policy %d, %t, want %d", word, got, ok, p)
		}
	}
	for _, p := range []int{-1, 3} {
		if word, ok := PolicyWord(p); ok {
			t.Errorf("policy %d can be stored, as %q", p, word)
		}
	}
	if p, ok := PolicyOf[int]("local"); ok || p != 0 {
		t.Errorf("policy %d is stored as local, want none", p)
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
		return bucket.Limit{Name: name, AtOnce: strings.HasSuffix(name, "*")}, nil
	}
	for _, c := range []struct {
		name   string
		limits []string
		want   string // part of the error; empty: none
	}{
		{"none", nil, ""},
		{"as many as there may be", list(bucket.MaxLimits, 0), ""},
		{"one more", list(bucket.MaxLimits+1, 0), fmt.Sprintf("%d limits", bucket.MaxLimits+1)},
		{"as many in flight as there may be", list(bucket.MaxAtOnce+1, bucket.MaxAtOnce), ""},
		{"one more in flight", list(bucket.MaxAtOnce+1, bucket.MaxAtOnce+1), "in-flight limits"},
		{"twice", []string{"b", "a", "b"}, `"b" twice`},
		{"a bad one", []string{"b", "bad"}, "number 1 is bad"},
	} {
		got, err := Limits("limits", c.limits, stored)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		sorted := slices.IsSortedFunc(got, func(a, b bucket.Limit) int { return strings.Compare(a.Name, b.Name) })
		if err == nil && (len(got) != len(c.limits) || !sorted) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
