package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Names come from limits, buckets and descriptions; one part that cannot be read does not keep the
// others away.
func TestNames(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "api"}, rpm10)
	w.set(Scope{"acme", "search"}, rpm10)
	w.create(Entity{ID: "org"})
	w.take("beta", "images", limiter.Costs{"own": 1}, limiter.PerMinute("own", 5))
	for at, want := range map[Scope][]Scope{
		{}:                   {{"", "api"}, {"acme", "search"}, {"beta", "images"}, {"org", ""}},
		{Entity: "acme"}:     {{"acme", "search"}},
		{Entity: "beta"}:     {{"beta", "images"}},
		{Resource: "images"}: {{"beta", "images"}},
		{Resource: "none"}:   nil,
	} {
		var got []Scope
		for s, err := range w.ns.Names(t.Context(), at) {
			if w.must(err); !slices.Contains(got, s) {
				got = append(got, s)
			}
		}
		slices.SortFunc(got, func(a, b Scope) int { return strings.Compare(a.String(), b.String()) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
	}
	bad := 0
	for _, err := range w.ns.Names(t.Context(), Scope{Entity: "", Resource: "a\x00"}) {
		if errors.Is(err, limiter.ErrInvalid) {
			bad++
		}
	}
	if bad == 0 {
		t.Error("a name that is none is accepted")
	}
}
