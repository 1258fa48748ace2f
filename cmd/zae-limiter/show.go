package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func policyOf(p limiter.Policy) string {
	if p == limiter.PolicyDefault {
		return ""
	}
	return p.String()
}

// accessText is what a scope says of access, empty if it says nothing.
func accessText(a admin.Access) string {
	if a == admin.AccessInherited {
		return ""
	}
	return a.String()
}

func days(d time.Duration) int64 { return int64(d / (24 * time.Hour)) }

// anyone writes a star for a part of a scope that is not set.
func anyone(s string) string { return cmp.Or(s, "*") }

// addConfig adds a row for what is said of access, and one for each limit, after those cells
// that come first.
func (r *rows) addConfig(c admin.Config, first ...any) {
	if c.Access != admin.AccessInherited {
		r.add(append(first, anyone(c.Entity), anyone(c.Resource), "", "", "", "", accessText(c.Access))...)
	}
	for _, l := range c.Limits {
		r.add(append(first, anyone(c.Entity), anyone(c.Resource), l.Name, l.Capacity, l.Refill, l.Period,
			manifest.Note(l))...)
	}
}

// configsHead is the head of the rows of addConfig.
var configsHead = []string{"entity", "resource", "limit", "capacity", "refill", "every", "note"}

func configsAnswer(configs ...admin.Config) answer {
	r := rows{head: configsHead}
	for _, c := range configs {
		r.addConfig(c)
	}
	return answer{value: configs, rows: r}
}

func resolvedAnswer(found admin.Resolved) answer {
	r := rows{head: append([]string{"in force"}, configsHead...)}
	if found.Access != admin.AccessInherited {
		r.add("yes", "", "", "", "", "", "", accessText(found.Access))
	}
	show := func(c admin.Config, inForce string) {
		c.Access = admin.AccessInherited // each scope says it by itself, and together it is said above
		r.addConfig(c, inForce)
	}
	show(found.From, "yes")
	for _, c := range found.Shadowed {
		show(c, "no")
	}
	return answer{value: found, rows: r}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isNotFound(err error) bool { return errors.Is(err, admin.ErrNotFound) }
