package envoylimit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// BucketOf returns the entity and the resource of a descriptor's bucket, under which limits can be
// stored for it. The resource is the domain and the keys, the entity the values, each joined by |:
//
//	domain edge, (remote_address, 10.0.0.1)                entity 10.0.0.1           resource edge|remote_address
//	domain edge, (path, /login), (header, a|b)             entity /login|a\|b        resource edge|path|header
//
// A backslash precedes | and \ within them, and \e stands for an empty one. A name that is longer
// than 256 bytes or cannot be printed is replaced by its hash, see limiter.Hashed. No two
// descriptors share a bucket.
//
// Pairs are alternating keys and values. If a rule with share_threshold matches a value, the bucket
// has the rule's value instead.
func BucketOf(domain string, pairs ...string) (entity, resource string) {
	entries := make([]entry, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		entries = append(entries, entry{pairs[i], pairs[i+1]})
	}
	return bucketOf(domain, entries)
}

func bucketOf(domain string, entries []entry) (entity, resource string) {
	keys, values := make([]string, 0, len(entries)+1), make([]string, 0, len(entries))
	keys = append(keys, domain)
	for _, e := range entries {
		keys, values = append(keys, e.key), append(values, e.value)
	}
	return joined(values), joined(keys)
}

var escapes = strings.NewReplacer(`\`, `\\`, `|`, `\|`)

// joined joins parts to a name. Different parts give different names.
func joined(parts []string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		if escaped[i] = escapes.Replace(p); p == "" {
			escaped[i] = `\e`
		}
	}
	name := strings.Join(escaped, "|")
	if !isName(name) {
		return limiter.Hashed(name)
	}
	return name
}

// maxName is the longest name, in bytes. The limiter accepts longer ones, but counts some
// characters three times.
const maxName = 256

// isName reports whether the limiter accepts a name. A name that looks like a hash does not count.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.HasPrefix(s, hashed) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// hashed is the prefix of hashes.
const hashed = "sha256:"
