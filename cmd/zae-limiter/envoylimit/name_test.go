package envoylimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestBucketOf(t *testing.T) {
	for _, c := range []struct {
		domain           string
		pairs            []string
		entity, resource string
	}{
		{"edge", []string{"remote_address", "10.0.0.1"}, "10.0.0.1", "edge|remote_address"},
		{"edge", []string{"path", "/login", "header", "a|b"}, `/login|a\|b`, "edge|path|header"},
		{`e\d`, []string{"k", "", "l", `\e`}, `\e|\\e`, `e\\d|k|l`},
		{"_default_", []string{"k", "日本"}, "日本", "_default_|k"},
		{"edge", []string{"k", "a\nb"}, limiter.Hashed("a\nb"), "edge|k"},
		{"edge", []string{"k", "\xff"}, limiter.Hashed("\xff"), "edge|k"},
		{"edge", []string{"k", strings.Repeat("x", 1024)}, limiter.Hashed(strings.Repeat("x", 1024)), "edge|k"},
		{"edge", []string{"k", limiter.Hashed("x")}, limiter.Hashed(limiter.Hashed("x")), "edge|k"},
		{"sha256:", []string{"k", "x"}, "x", limiter.Hashed("sha256:|k")},
	} {
		if entity, resource := BucketOf(c.domain, c.pairs...); entity != c.entity || resource != c.resource {
			t.Errorf("%q %q: %q of %q, want %q of %q", c.domain, c.pairs, entity, resource, c.entity, c.resource)
		}
	}
}

// hostile are pieces of keys and values that could be taken for something else.
var hostile = []string{"", "a", "b", "|", `\`, `\e`, `\|`, "#", "%", "\x00", "\n", "\xff", "é", "sha256:", "*", "=",
	strings.Repeat("%", 200), strings.Repeat("x", 1024)}

// Whatever a descriptor says names a bucket that the limiter accepts, and no other descriptor has it.
func TestEveryDescriptorHasABucketOfItsOwn(t *testing.T) {
	l := limitertest.New(t).Limiter(&limiter.Options{MaxBuckets: 10})
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		out := ""
		for range random.IntN(4) {
			out += hostile[random.IntN(len(hostile))]
		}
		return out
	}
	seen := map[[2]string]string{}
	for range 20_000 {
		domain, entries := word(), make([]entry, 1+random.IntN(3))
		for i := range entries {
			entries[i] = entry{word(), word()}
		}
		entity, resource := bucketOf(domain, entries)
		is := fmt.Sprintf("%q %q", domain, entries)
		if other, ok := seen[[2]string{entity, resource}]; ok && other != is {
			t.Fatalf("%s and %s are both %q of %q", is, other, entity, resource)
		}
		seen[[2]string{entity, resource}] = is
		_, err := l.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: resource,
			Costs: limiter.Costs{LimitName: 1}})
		if !errors.Is(err, limiter.ErrNoLimits) { // an acceptable name without limits
			t.Fatalf("%s is %q of %q: %v", is, entity, resource, err)
		}
	}
}
