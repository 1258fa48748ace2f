package item

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Whatever was asked for before, each alias stands for the attribute at its place: lists that read
// the same in one piece are told apart, and so are more of them than are kept.
func TestAliases(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"", "a", "b", "ab", "ba", "b_rpm_tk", "b_rpm_tc", "\x01a", "\x00"}
	for range 20 * maxAliasings {
		list, want := make([]string, r.IntN(5)), map[string]string(nil)
		for i := range list {
			list[i] = words[r.IntN(len(words))]
			if want == nil {
				want = map[string]string{}
			}
			want["#"+strconv.Itoa(i)] = list[i]
		}
		if got := aliased(list); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Fatalf("%q: %q, want %q", list, got, want)
		}
	}
	if n := len(*aliasings.Load()); n > maxAliasings {
		t.Errorf("%d lists are kept, want at most %d", n, maxAliasings)
	}
}

// A list that is kept is not made again: that is what it is kept for.
func TestAliasesOfOneBucketAreShared(t *testing.T) {
	aliasings.Store(nil)
	list := []string{"b_rpm_tk", "b_rpm_tc", "rf"}
	aliased(list)
	if n := testing.AllocsPerRun(100, func() { aliased(list) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
